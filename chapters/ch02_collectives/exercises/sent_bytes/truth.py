"""The right results, and the results of known mistakes."""

from math import ceil, log2

from .cases import COLLECTIVES


def share(name, n, x) -> float:
    return (n - 1) * x / n * (2 if name == "all_reduce" else 1)


WHOLE = {  # the meaning of X
    "all_gather": "the whole result, of which a rank brings X / n",
    "reduce_scatter": "all that a rank has, of which each rank gets X / n",
    "all_to_all": "all that a rank has, of which each rank gets X / n",
}


def treat_x_as_piece(whole):
    return lambda name, n, x: (n - 1) * x if name == whole else share(name, n, x)


MISTAKES = [
    ("this is in MB, and so is X only if you are told so: X is in bytes.",
     lambda name, n, x: share(name, n, x) / 1e6),
    ("twice as much as has to be sent: what a rank receives, another one has sent. Count what "
     "it sends.", lambda name, n, x: 2 * share(name, n, x)),
    ("this is what Gloo's own reduce_scatter sends. Asked is what has to be sent: a "
     "reduce-scatter goes round the ring once.",
     lambda name, n, x: share(name, n, x) * (2 if name == "reduce_scatter" else 1)),
    *((f"X is taken for one piece; it is {what}.", treat_x_as_piece(whole))
      for whole, what in WHOLE.items()),
    *(("too little: n - 1 pieces of X / n have to get to each rank, and log2 n messages of a "
       "single piece do not bring them. In a tree there are as few messages, but they grow.",
       lambda name, n, x, some=some: (
           share(name, n, x) * (ceil(log2(n)) / (n - 1) if name in some else 1)))
      for some in (COLLECTIVES[1:2], COLLECTIVES[1:3], COLLECTIVES[1:], COLLECTIVES)),
    ("this is what all ranks send together; one of them sends an nth of it.",
     lambda name, n, x: share(name, n, x) * n),
    ("the whole tensor would travel n - 1 times. In each step of a ring only one chunk of "
     "X / n does.", lambda name, n, x: (n - 1) * x),
    ("one message too many: a rank's own piece needs not travel.",
     lambda name, n, x: share(name, n, x) if name == "all_reduce" else x),
    *((f"one message too many in the {words}: a rank's own piece needs not travel.",
       lambda name, n, x, some=some: x if name == some else share(name, n, x))
      for some, words in zip(COLLECTIVES[1:], ("all-gather", "reduce-scatter", "all-to-all"))),
    ("one step too many in each half: a ring of n ranks has n - 1 steps.",
     lambda name, n, x: 2 * x if name == "all_reduce" else x),
    ("one step too many in each half: a ring of n ranks has n - 1 steps.",
     lambda name, n, x: 2 * x),
    ("this is X, once: count messages of X / n.", lambda name, n, x: x),
    ("this is half of it: an all-reduce is a reduce-scatter and an all-gather.",
     lambda name, n, x: (n - 1) * x / n),
    ("twice too much: only an all-reduce goes round the ring twice.",
     lambda name, n, x: 2 * (n - 1) * x / n),
    ("this is one message; a rank sends n - 1 of them.", lambda name, n, x: x / n),
]  # fmt: skip

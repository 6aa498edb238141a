"""The right results, and the results of known mistakes."""

from math import log2

from coursekit.kit.message_costs import tree_rounds


def copies(how, n) -> float:
    """Count the copies of X that cross the busiest link one after another, by listing them."""
    if how == "server":
        return len([(worker, way) for way in ("pull", "push") for worker in range(1, n)])
    halves = ("reduce-scatter", "all-gather")
    return len([(half, step) for half in halves for step in range(n - 1)]) / n  # each is one chunk


def seconds(how, n, X, B) -> float:
    return copies(how, n) * X / B


def miscount_copies(where, count):
    """Return a wrong function: `count(n)` copies in the way `where`, else the right number."""
    return lambda how, n, X, B: (count(n) if how == where else copies(how, n)) * X / B


def server(count):
    return miscount_copies("server", count)


def ring(count):
    return miscount_copies("ring", count)


TREE = "that would be a tree, in which workers pass the weights on"

MISTAKES = [
    ("X and B both count bytes: no factor of 8 comes in.",
     lambda how, n, X, B: 8 * seconds(how, n, X, B)),
    ("X and B both count bytes: there is nothing to divide by 8.",
     lambda how, n, X, B: seconds(how, n, X, B) / 8),
    ("these are bytes; divide them by the bytes of a second, B.",
     lambda how, n, X, B: copies(how, n) * X),
    ("a faster link makes it shorter: divide by B.",
     lambda how, n, X, B: copies(how, n) * X * B),
    ("upside down: bytes divided by bytes per second are seconds.",
     lambda how, n, X, B: copies(how, n) * B / X),
    ("this is rounded. Return the seconds as they are, also where they are few.",
     lambda how, n, X, B: round(seconds(how, n, X, B), 6)),
    ("these are milliseconds; seconds are asked for.",
     lambda how, n, X, B: 1000 * seconds(how, n, X, B)),
    ("this is one way only. A worker pulls X and pushes X, and since nobody pushes before all "
     "have pulled, the two do not go on at the same time.", server(lambda n: n - 1)),
    ("the server is no worker: of n ranks, n - 1 pull and push.", server(lambda n: 2 * n)),
    ("this is one way only, and the server is counted as a worker: n - 1 workers pull, and "
     "later push.", server(lambda n: n)),
    ("you let all copies go at the same time. Each worker has a link of its own, but the other "
     "end of all of them is the server's, which is only one.", server(lambda n: 2)),
    ("this is one copy. How many go through the server's link, in both directions?",
     server(lambda n: 1)),
    ("this is what a ring takes: there, everybody sends X / n at a time. A worker pulls all "
     "weights, and pushes all gradients.", server(lambda n: 2 * (n - 1) / n)),
    (f"{TREE}. Here each one pulls from the server.", server(lambda n: 2 * tree_rounds(n))),
    (f"{TREE}, and with a part of a round. Here each one pulls from the server.",
     server(lambda n: 2 * log2(n))),
    ("both ends of each copy are counted; a copy leaves one link and arrives on another at the "
     "same time.", server(lambda n: 4 * (n - 1))),
    ("everybody would send to everybody. Workers speak with the server alone.",
     server(lambda n: n * (n - 1))),
    ("this is what all ranks send together, or what whole tensors would take. All ranks send "
     "at the same time, and a message is a chunk of X / n.", ring(lambda n: 2 * (n - 1))),
    ("one step too many in each half: a ring of n ranks has n - 1 steps.", ring(lambda n: 2)),
    ("this is half of it: a reduce-scatter. An all-gather has to follow.",
     ring(lambda n: (n - 1) / n)),
    ("a rank sends and receives at the same time, as a link carries B in each direction: do "
     "not add up the two.", ring(lambda n: 4 * (n - 1) / n)),
    ("this is one message in each half; there are n - 1.", ring(lambda n: 2 / n)),
    ("this is one message, of 2 (n - 1).", ring(lambda n: 1 / n)),
    ("this is X bytes once over a link. How many messages does a rank send, and of which "
     "size?", ring(lambda n: 1)),
    ("in a ring there is no server: all n ranks work, and each has a chunk of X / n.",
     ring(lambda n: 2 * (n - 2) / (n - 1))),
    ("a chunk has X / n bytes, also where that is no integer: // cuts the fraction off.",
     lambda how, n, X, B: seconds(how, n, X // n * n if how == "ring" else X, B)),
    ("that is a tree. In a ring, a rank sends 2 (n - 1) messages.",
     ring(lambda n: 2 * tree_rounds(n))),
]  # fmt: skip

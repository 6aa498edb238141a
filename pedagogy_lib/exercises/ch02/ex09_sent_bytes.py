"""The bytes that a rank sends in each collective."""

from fractions import Fraction
from functools import cache
from math import ceil, isclose, log2

import torch
import torch.distributed as dist

from ...course.checking import Wrong
from ...measuring.recorder import measure
from ...ranks.launcher import launch
from ..kit import Formula
from ..kit.formula import NONE_HERE, value_of
from ..kit.tables import tabled
from ..kit.values import equal, need_kind, text_of

X = 2_400_000  # bytes: 2, 3 and 4 divide it
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def each_collective():
    """Each on X bytes: of the whole result in an all-gather, of the input elsewhere."""
    x = torch.ones(X // 8, dtype=torch.float64)
    chunks = list(x.chunk(dist.get_world_size()))
    part = torch.ones_like(chunks[0])
    with measure("all_reduce"):
        dist.all_reduce(x)
    with measure("all_gather"):
        dist.all_gather(chunks, part)
    with measure("reduce_scatter"):
        dist.reduce_scatter(part, chunks)
    with measure("all_to_all"):
        dist.all_to_all_single(torch.empty_like(x), x)


KEPT_AS_CODE = ("truth",)  # in a handout, too: it measures, and the formula is not in it


@cache
def run_on(n):
    return launch(each_collective, world_size=n, device="cpu")


def needed(name, n, x) -> float:
    """What a rank has sent; Gloo's reduce_scatter sends more than it has to: see the chapter."""
    block = run_on(n)[name]
    sent = sum(call.sent_bytes for call in block.calls[0])
    return sent if name == "reduce_scatter" else block.sent_bytes[0]


def how(name, n) -> str:
    return "needed" if name == "reduce_scatter" else run_on(n)[name].wire


def share(name, n, x) -> float:
    return (n - 1) * x / n * (2 if name == "all_reduce" else 1)


WHOLE = {  # what X is
    "all_gather": "the whole result, of which a rank brings X / n",
    "reduce_scatter": "all that a rank has, of which each rank gets X / n",
    "all_to_all": "all that a rank has, of which each rank gets X / n",
}


def taken_for_a_piece(whole):
    return lambda name, n, x: (n - 1) * x if name == whole else share(name, n, x)


def need_proportion(answer):
    """Where n does not divide X; a tolerance for headers would hide it."""
    for name in COLLECTIVES:
        for n, x in UNEVEN:
            case, got = f"{name}, {n} ranks, X = {x:,} bytes", value_of(answer, (name, n, x))
            if got is None:
                raise Wrong(case, "it returned None", NONE_HERE)
            need_kind(case, got, 1.0, ROUNDED if n == 3 else OTHER_N)
            wanted = sent_by_one(name, n, x)
            if not equal(got, wanted):
                what = f"it gave {text_of(got)} bytes; they are {text_of(wanted)}"
                raise Wrong(case, what, ROUNDED if isclose(got, wanted, rel_tol=0.3) else OTHER_N)
    yield "without headers, and where n does not divide X: exact"


UNEVEN = [(3, 10), (7, 1_000_000)]  # ranks, X


@tabled(lambda: [(name, *size) for name in COLLECTIVES for size in UNEVEN])
def sent_by_one(name, n, x) -> float:
    return float(sum(size for _, size in sends_of(name, n, Fraction(x))))


def sends_of(name, n, x) -> list[tuple]:
    """What rank 0 sends in such a collective: (to whom, how much), one piece after another."""
    to_each = [(peer, x / n) for peer in range(1, n)]  # of an all-to-all
    round_the_ring = [(1, x / n) for _ in range(n - 1)]
    ways = {"all_reduce": round_the_ring * 2, "all_to_all": to_each}
    return ways.get(name, round_the_ring)


ROUNDED = (
    "bytes are in proportion to X. Is the size of a chunk rounded, as by // or int()? Is a factor "
    "rounded, or are headers counted? A formula holds for every X, also where n does not divide it"
)
OTHER_N = (
    "it is right for 2, 3 and 4 ranks. A formula holds for every n: is there a table of factors in "
    "it, or a number of ranks?"
)
EXERCISE = Formula(
    "2.9",
    "sent_bytes",
    cases={
        f"{name}, {n} ranks, X = 2.4 MB": [(name, n, X)] for n in (4, 3, 2) for name in COLLECTIVES
    },
    truth=needed,
    same=lambda got, wanted: isclose(got, wanted, rel_tol=0.01),  # headers travel, too
    told=lambda calls, values: (
        f"{values[0] / 1e6:.2f} MB, {how(*calls[0][:2])} {needed(*calls[0]) / 1e6:.2f} MB"
    ),
    differs=lambda call, wanted, got: (
        f"it gave {got / 1e6:.2f} MB, {how(*call[:2])} {wanted / 1e6:.2f} MB"
    ),
    mistakes=[
        ("this is in MB, and so is X only if you are told so: X is in bytes.",
         lambda name, n, x: share(name, n, x) / 1e6),
        ("twice as much as has to be sent: what a rank receives, another one has sent. Count what "
         "it sends.", lambda name, n, x: 2 * share(name, n, x)),
        ("this is what Gloo's own reduce_scatter sends. Asked is what has to be sent: a "
         "reduce-scatter goes round the ring once.",
         lambda name, n, x: share(name, n, x) * (2 if name == "reduce_scatter" else 1)),
        *((f"X is taken for one piece; it is {what}.", taken_for_a_piece(whole))
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
    ],
    also=need_proportion,
    hints=(
        "Bytes are messages times the size of a message. In a ring every message is X / n.",
        "How many steps has a reduce-scatter? An all-gather? And an all-reduce is both.",
    ),
)  # fmt: skip

"""1F1B: a warm-up of forwards, then one forward and one backward in turns."""

from ..gpipe.check import ALL_SIZES
from ..shared.generators import SIGNS_OF_ANY, Schedule, cases_of
from .truth import ALL_MISTAKES, truth


def first_off(back) -> int:
    """Return the index of the first backward out of order, or the number of backwards."""
    return next((k for k, i in enumerate(back) if i != k), len(back))


def is_reversed(back, m) -> bool:
    """Return whether backwards are in order first, and the rest in the opposite order."""
    k = first_off(back)
    return k < m and back[k:] == [*range(m - 1, k - 1, -1)]


def next_backward(of) -> str:
    """Describe the backwards that a rank has done before its first wrong one."""
    k = next(k for k in map(first_off, of.B) if k < of.m)
    done = ("none is", "B0 is")[k] if k < 2 else f"B0 to B{k - 1} are"
    return (
        f"the cool-down begins with the wrong number: {done} done by then, and the next one is "
        f"B{k}. The steady part has already done a backward after each of its forwards"
    )


SIGNS = [
    ("a batch may have fewer micro-batches than the warm-up would take: it takes at most all of "
     "them, min(…, microbatches)",
     lambda of: of.m < of.ranks and any(i >= of.m for forth in of.F for i in forth)),
    ("the warm-up is below 0 on the last rank: after it come no ranks",
     lambda of: [rank for rank, forth in enumerate(of.F) if {*forth} & {-1}] == [of.ranks - 1]),
    *SIGNS_OF_ANY,
    ("after the warm-up the forward comes first, then the backward: one F, one B. The last rank "
     "has no warm-up, and nothing to go back with before its first forward",
     lambda of: not all(of.leads)),
    ("some micro-batches never go back. When the last forward is done, as many as the warm-up had "
     "are still kept: their backwards are the cool-down",
     lambda of: any(len(back) < of.m and back == [*range(len(back))] for back in of.B)),
    ("the backward of the newest micro-batch comes first. It goes forward on the ranks after this "
     "one before anything comes back, and the oldest one has been on its way for longest: that one "
     "comes back first",
     lambda of: any(back[:k] != [*range(k)] for back, k in zip(of.B, of.steady))),
    ("the last backwards come in the opposite order: of what is left, too, the oldest has been on "
     "its way for longest, and comes back first",
     lambda of: any(is_reversed(back, of.m) for back in of.B)),
    (next_backward, lambda of: any(first_off(back) < of.m for back in of.B)),
    ("all ranks warm up alike. A rank has to warm up only with as many forwards as there are ranks "
     "after it: the last one with none",
     lambda of: of.ranks > 1 == len({*of.leads}) and 1 < of.leads[0] < of.m),
    ("the wrong way round: the last rank has the longest warm-up. A rank waits for what comes back "
     "to it, which takes longest for the first: it warms up with as many forwards as there are "
     "ranks after it", lambda of: of.leads[0] < of.leads[-1] == max(of.leads)),
    ("a rank that has gone back goes forward several times in a row, as if it began anew. After "
     "the warm-up, forwards and backwards take turns: one F, one B",
     lambda of: any("FF" in kinds.lstrip("F") for kinds in of.kinds)),
]  # fmt: skip

EXERCISE = Schedule(
    "one_f_one_b",
    lab="schedules",
    cases=cases_of((4, 8), (4, 2)) | ALL_SIZES,
    truth=truth,
    mistakes=ALL_MISTAKES,
    signs=SIGNS,
    hints=(
        "Write down what ranks 0 and 3 of 4 do with 8 micro-batches. How many forwards does "
        "each do before its first backward?",
        "Three loops: a warm-up of forwards; then F and B in turns; then the backwards that "
        "are left. How long a warm-up is, the number of ranks after this one decides.",
        "warm_up = min(ranks - 1 - rank, microbatches). In the steady part, i goes from "
        "warm_up to the last micro-batch: which one goes back after forward i?",
        "The oldest that is kept: i - warm_up. Left for the end are the last `warm_up` ones: "
        "range(microbatches - warm_up, microbatches).",
    ),
)  # fmt: skip

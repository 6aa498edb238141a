"""GPipe: all forwards, then all backwards."""

from itertools import product

from .actions import Action, in_memory
from .generators import SIGNS_OF_ANY, Schedule, cases_of, told_case

ALL_SIZES = {
    told_case(ranks, "1 to 16"): list(product([ranks], range(1, 17))) for ranks in (1, 2, 3, 4, 8)
}


def backwards_reversed(rank, ranks, m):
    row = [Action("F", i) for i in range(m)]
    return row + [Action("B", i) for _, i, _ in reversed(row)]


EXERCISE = Schedule(
    "8.1",
    "gpipe",
    lab="schedules",
    cases=cases_of((4, 8), (4, 2)) | ALL_SIZES,
    truth=in_memory(lambda rank, ranks, m: m),
    mistakes=[
        ("each micro-batch goes back before the next one goes forward: only one rank at a time has "
         "anything to do. That is `naive`", in_memory(lambda rank, ranks, m: 1)),
        ("the backwards come in the opposite order. That is a GPipe, too, with the same bubble and "
         "the same memory; but asked is both in order, 0 first, so that all schedules can be "
         "compared", backwards_reversed),
    ],
    signs=[
        *SIGNS_OF_ANY,
        ("some backwards come before the last forward: that is for exercise 8.4",
         lambda of: any(of.steady) and all(len(row) == 2 * of.m for row in of.rows)),
        ("on some ranks the backwards come in the opposite order: all ranks do the same, 0 first",
         lambda of: any(back == [*range(of.m)][::-1] for back in of.B)),
        ("each rank has all micro-batches, whatever its number: it waits for them by itself",
         lambda of: len({len(row) for row in of.rows}) > 1),
    ],
    hints=(
        "Look at `naive`, above it: it has the same actions, in another order.",
        "The order is the same on all ranks: they wait for each other by themselves.",
        "One loop over the micro-batches for the forwards, and then one for the backwards.",
    ),
)  # fmt: skip

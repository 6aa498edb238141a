"""GPipe: all forwards, then all backwards."""

from itertools import product

from ..shared.generators import SIGNS_OF_ANY, Schedule, cases_of, format_case
from .truth import MISTAKES, truth

ALL_SIZES = {
    format_case(ranks, "1 to 16"): list(product([ranks], range(1, 17))) for ranks in (1, 2, 3, 4, 8)
}

EXERCISE = Schedule(
    "gpipe",
    lab="schedules",
    cases=cases_of((4, 8), (4, 2)) | ALL_SIZES,
    truth=truth,
    mistakes=MISTAKES,
    signs=[
        *SIGNS_OF_ANY,
        ("some backwards come before the last forward: that is for exercise {{one_f_one_b}}",
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

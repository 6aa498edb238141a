"""Process groups that all ranks create in the same order, checked by who takes part in a sum."""

from coursekit.kit import RankCase, RankExercise, World, complains

from .cases import COLUMNS, ROWS, make_and_sum
from .truth import ALL_OF_THEM, IN_ORDER, describe_success, faults

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "my_group",
    cases=[
        RankCase(World(4), (ROWS,), ", groups [0, 1] and [2, 3]"),
        RankCase(World(4), (COLUMNS,), ", groups [0, 2] and [1, 3]"),
        RankCase(World(4), (((0,), (1, 2, 3)),), ", groups [0] and [1, 2, 3]"),
    ],
    work=make_and_sum,
    facts=[complains(faults)],
    right=describe_success,
    on_hang=f"{ALL_OF_THEM}. And {IN_ORDER}",
    hints=(
        "On a sheet of paper: which lists does rank 0 hand to dist.new_group, in which order? And "
        "rank 3? Write the numbers 1 and 2 beside them.",
        "The first call of rank 0 and the first call of rank 3 belong together, for "
        "torch.distributed. Are they for the same list?",
    ),
)

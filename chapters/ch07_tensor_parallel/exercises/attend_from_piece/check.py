"""Attention of a rank's piece, whose rotary angles begin at 0. The truth is one process."""

from coursekit.kit import RankCase, World
from coursekit.kit.forward_backward import make_reference_exercise, right

from .cases import prepare
from .truth import gradients_of, need_two_gathers, y_of

FINDS_A_BUG = True

EXERCISE = make_reference_exercise(
    "attend_from_piece",
    cases=[
        RankCase(World(n), shape, f", pieces {list(shape)}")
        for n, shape in [(2, (1, 3, 4, 4)), (3, (1, 2, 4, 6)), (1, (1, 2, 5, 4))]
    ],
    prepare=prepare,
    y=right("y", y_of),
    gradients=gradients_of,
    needs=("all_gather", "rotate"),
    more=[need_two_gathers],
    hints=(
        "Rank 0 is right, and every other rank is wrong. What does rank 0 see that they do not, "
        "and what do they see that it does not?",
        "Take pieces of 4 places. Rank 1's first query is at place 4 of the context. By how many "
        "places is it apart from rank 0's last key, and by how many according to the program?",
        "The mask knows where the rank's piece begins: rank * length. The angles of queries and "
        "keys begin there, too.",
    ),
)  # fmt: skip

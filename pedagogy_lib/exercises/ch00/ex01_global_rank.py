"""Exercise 0.1: global_rank."""

from ...course.checking import Exercise
from .formulas import examine_global_rank

EXERCISE = Exercise(
    "0.1", "global_rank", examine_global_rank,
    (
        "How many processes are on the nodes before this one?",
        "Nodes count from 0, so `node` nodes come before it, with per_node processes each. "
        "Add the place on its own node.",
    ),
)  # fmt: skip

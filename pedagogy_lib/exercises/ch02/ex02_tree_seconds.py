"""Exercise 2.2: tree_seconds."""

from ...course.checking import Exercise
from .formulas import examine_tree_seconds

EXERCISE = Exercise(
    "2.2", "tree_seconds", examine_tree_seconds,
    (
        "Write down how many have the file after 0, 1, 2, 3 rounds.",
        "Rounds until at least n have it: that is a logarithm, rounded up (math.ceil).",
    ),
)  # fmt: skip

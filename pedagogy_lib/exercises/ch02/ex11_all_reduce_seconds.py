"""Exercise 2.11: all_reduce_seconds."""

from ...course.checking import Exercise
from .formulas import examine_all_reduce_seconds

EXERCISE = Exercise(
    "2.11", "all_reduce_seconds", examine_all_reduce_seconds,
    (
        "Count the messages that have to follow each other, and say how long one takes: alpha "
        "+ bytes / B.",
        "Ring: 2 (n - 1) steps of X / n. Tree: up and down again, ceil(log2 n) rounds each, of "
        "all X.",
    ),
)  # fmt: skip

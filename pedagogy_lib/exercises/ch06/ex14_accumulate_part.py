"""Exercise 6.14: accumulate_part."""

from ...course.checking import Exercise
from .broken_stages import examine_part

EXERCISE = Exercise(
    "6.14", "accumulate_part", examine_part,
    (
        "The result is a fixed number of times the right one. Which, with 2 ranks, with 3?",
        "Two sums need two divisions: over micro-batches, and over ranks. Count how often each "
        "gradient is divided by n.",
        "What reduce_scatter has summed up is divided by n at the end. The loss needs the "
        "number of micro-batches alone.",
    ),
)  # fmt: skip

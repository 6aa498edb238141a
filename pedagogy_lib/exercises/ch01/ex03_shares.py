"""Exercise 1.3: shares."""

from ...course.checking import Exercise
from .formulas import examine_shares

EXERCISE = Exercise(
    "1.3", "shares", examine_shares,
    (
        "Multiplying a mean by the number of its samples gives back their sum.",
        "Sum those, and divide by the number of all samples: what stands before each mean?",
    ),
)  # fmt: skip

"""Exercise 0.2: my_samples."""

from ...course.checking import Exercise
from .formulas import examine_my_samples

EXERCISE = Exercise(
    "0.2", "my_samples", examine_my_samples,
    (
        "Deal them out like cards: sample 0 to rank 0, sample 1 to rank 1, and so on, round "
        "and round. Which does rank 1 get?",
        "It begins with its own number, and goes on in steps of world_size.",
        "range(start, stop, step) counts in steps; list(…) makes a list of it.",
    ),
)  # fmt: skip

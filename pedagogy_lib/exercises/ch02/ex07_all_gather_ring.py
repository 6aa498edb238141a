"""Exercise 2.7: all_gather_ring."""

from ...course.checking import Exercise
from . import collectives as by_messages

EXERCISE = Exercise(
    "2.7", "all_gather_ring", by_messages.examine_all_gather,
    (
        "The same ring, without adding: in the first step each rank sends its own chunk.",
        "Then it always passes on the one that came in last: chunk (rank - step) % n.",
        "Receive straight into chunks[(rank - step - 1) % n].",
    ),
    lab="collectives",
)  # fmt: skip

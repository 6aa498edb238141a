"""Exercise 8.1: gpipe."""

from ...course.checking import Exercise
from .generators import examine_gpipe

EXERCISE = Exercise(
    "8.1", "gpipe", examine_gpipe,
    (
        "Look at `naive`, above it: it has the same actions, in another order.",
        "The order is the same on all ranks: they wait for each other by themselves.",
        "One loop over the micro-batches for the forwards, and then one for the backwards.",
    ),
    lab="schedules",
)  # fmt: skip

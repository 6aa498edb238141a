"""Exercise 1.2: train_accumulated."""

from ...course.checking import Exercise
from .formulas import examine_loop

EXERCISE = Exercise(
    "1.2", "train_accumulated", examine_loop,
    (
        "backward() adds to .grad by itself: nothing need be collected. What you write is "
        "when to step, and when to set back.",
        "Count the micro-batches from 1; a batch is complete if number % every == 0.",
        "The mean over a batch of equal parts is the sum of their means, each divided by "
        "`every`: divide the loss before backward().",
    ),
)  # fmt: skip

"""Exercise 1.4: accumulate."""

from ...course.checking import Exercise
from . import accumulation

EXERCISE = Exercise(
    "1.4", "accumulate", accumulation.examine_samples,
    (
        "Exercise 1.3 is inside: how much does each micro-batch's mean count?",
        "Count all samples first, before the loop. Inside it: forward, loss times its share, "
        "backward.",
        "Call backward() in each round, so that its graph can go; keep only loss.item(). And "
        "begin with model.zero_grad().",
    ),
    lab="gradient_accumulation",
)  # fmt: skip

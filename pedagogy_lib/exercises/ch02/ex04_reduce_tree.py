"""Exercise 2.4: reduce_tree."""

from ...course.checking import Exercise
from . import collectives as by_messages

EXERCISE = Exercise(
    "2.4", "reduce_tree", by_messages.examine_reduce,
    (
        "A tree again, towards the root. In the first round 1 sends to 0, 3 to 2, 5 to 4.",
        "Whoever has sent is done. In the round of `reach`, those left are the places that "
        "`reach` divides; every other one of them sends.",
        "Receive into a tensor of its own and add it to x, so that x is the sum so far.",
    ),
    lab="collectives",
)  # fmt: skip

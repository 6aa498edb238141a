"""Exercise 2.10: all_to_all."""

from ...course.checking import Exercise
from . import collectives as by_messages

EXERCISE = Exercise(
    "2.10", "all_to_all", by_messages.examine_all_to_all,
    (
        "One of the n pieces stays. For the others: n - 1 rounds, and in each round everybody "
        "sends to one rank and receives from one.",
        "In round s send to rank + s, and receive from rank - s (both % n): exchange(…).",
        "Or put all sends and all receives into one batch, and then wait for all of them.",
    ),
    lab="collectives",
)  # fmt: skip

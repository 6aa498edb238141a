"""Exercise 2.9: sent_bytes."""

from ...course.checking import Exercise
from .formulas import examine_sent_bytes

EXERCISE = Exercise(
    "2.9", "sent_bytes", examine_sent_bytes,
    (
        "Bytes are messages times the size of a message. In a ring every message is X / n.",
        "How many steps has a reduce-scatter? An all-gather? And an all-reduce is both.",
    ),
)  # fmt: skip

"""Exercise 8.2: bubble."""

from ...course.checking import Exercise
from .bubbles import examine_bubble

EXERCISE = Exercise(
    "8.2", "bubble", examine_bubble,
    (
        "Count for one rank, in turns of one micro-batch each: how many does it work for, and "
        "how many does it wait for the others, at the beginning and at the end together?",
        "The last stage gets its first micro-batch after stages - 1 turns, and then works "
        "without a break. Every rank is idle for as long.",
        "idle = stages - 1 turns, work = microbatches turns. The first number is "
        "idle / (work + idle), the second idle / work.",
    ),
)  # fmt: skip

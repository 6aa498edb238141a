"""Exercise 3.1: exchange_seconds."""

from ...course.checking import Exercise
from .servers import examine_exchange

EXERCISE = Exercise(
    "3.1", "exchange_seconds", examine_exchange,
    (
        "Look for the link that has most to carry, and count its bytes in each direction.",
        "Server: n - 1 workers pull X through its one link; then they push X, each. Ring: all "
        "links carry the same at the same time.",
        "A ring all-reduce has 2 (n - 1) steps, and in each of them a rank sends X / n.",
    ),
)  # fmt: skip

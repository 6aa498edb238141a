"""Exercise 3.14: no_sync."""

from ...course.checking import Exercise
from .overlapping import examine_no_sync

EXERCISE = Exercise(
    "3.14", "no_sync", examine_no_sync,
    (
        "DDP has a switch for it already: ddp.synchronizing. What runs under `with` runs at "
        "the `yield`.",
        "Keep the value that is there before, set False, yield, put the value back. And if "
        "what runs under it raises?",
        "try: yield, finally: put it back.",
    ),
    lab="data_parallel",
)  # fmt: skip

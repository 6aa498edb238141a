"""Exercise 3.16: accumulate_ddp."""

from ...course.checking import Exercise
from .broken_loops import examine_no_sync

EXERCISE = Exercise(
    "3.16", "accumulate_ddp", examine_no_sync,
    (
        "The gradients are right. Measure the bytes: how often do they travel?",
        "DistributedDataParallel prepares for a backward's communication in the forward before "
        "it.",
        "For all micro-batches but the last, the forward has to be under no_sync(), too.",
    ),
)  # fmt: skip

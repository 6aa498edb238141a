"""Exercise 6.12: ShardedLinear."""

from ...course.checking import Exercise
from .broken_stages import examine_sharded

EXERCISE = Exercise(
    "6.12", "ShardedLinear", examine_sharded,
    (
        "With one layer all is right. With three in a row, what is in the buffer when the "
        "first backward begins? And the second?",
        "The forward of the last layer has filled the buffer, for all. Each backward needs the "
        "weight of its own layer. To keep a copy for each would cost what stage 3 saves.",
        "In backward, before `slope @ ctx.buffer`, gather the weight again, as forward does.",
    ),
)  # fmt: skip

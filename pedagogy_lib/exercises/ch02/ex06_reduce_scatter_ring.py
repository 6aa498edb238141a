"""Exercise 2.6: reduce_scatter_ring."""

from ...course.checking import Exercise
from . import collectives as by_messages

EXERCISE = Exercise(
    "2.6", "reduce_scatter_ring", by_messages.examine_reduce_scatter,
    (
        "n - 1 steps. In each: exchange(…) sends one chunk to the next rank, and receives one "
        "from the rank before into a tensor of its own. Add that.",
        "Exercise 2.5 says which chunk goes. The one that comes is what the rank before sends: "
        "the same formula, with rank - 1.",
    ),
    lab="collectives",
)  # fmt: skip

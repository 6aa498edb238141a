"""Exercise 2.8: all_reduce_ring."""

from ...course.checking import Exercise
from . import collectives as by_messages

EXERCISE = Exercise(
    "2.8", "all_reduce_ring", by_messages.examine_all_reduce,
    (
        "You have both halves already.",
        "list(x.view(-1).tensor_split(n)) has n chunks that share x's memory: what is written "
        "into them is written into x. tensor_split alone gives a tuple; the two halves take "
        "a list.",
    ),
    lab="collectives",
)  # fmt: skip

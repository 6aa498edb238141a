"""Exercise 2.12: all_reduce_buckets."""

from ...course.checking import Exercise
from . import collectives as by_messages

EXERCISE = Exercise(
    "2.12", "all_reduce_buckets", by_messages.examine_buckets,
    (
        "First sort the tensors into a list of lists; then deal with one list at a time.",
        "torch.cat of the flattened tensors makes one long tensor. all_reduce_ring it.",
        "long.split([…lengths…]) cuts it again; copy each piece back into its tensor.",
    ),
    lab="collectives",
)  # fmt: skip

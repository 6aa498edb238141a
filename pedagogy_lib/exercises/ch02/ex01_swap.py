"""Exercise 2.1: swap."""

from ...course.checking import Exercise
from . import collectives as by_messages

EXERCISE = Exercise(
    "2.1", "swap", by_messages.examine_swap,
    (
        "Who is the partner of rank 0, of 1, of 2, of 3? Write the four numbers down.",
        "`dist.send` does not return before somebody receives. If both partners send first, "
        "nobody does. `dist.batch_isend_irecv` begins several messages at once, and returns "
        "their requests.",
        "An empty tensor of the same shape; a list of two dist.P2POp, one to send x, one to "
        "receive into the empty one; begin this batch; wait for each request; return.",
    ),
)  # fmt: skip

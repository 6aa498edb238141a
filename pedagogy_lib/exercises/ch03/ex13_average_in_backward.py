"""Exercise 3.13: average_in_backward."""

from ...course.checking import Exercise
from .broken_loops import examine_hooks

EXERCISE = Exercise(
    "3.13", "average_in_backward", examine_hooks,
    (
        "Look at what travels. What does autograd give to a post-accumulate hook as its "
        "argument: a gradient, or a parameter?",
        "When the hook runs, parameter.grad is filled. Frozen parameters take no hook.",
        "Sum up parameter.grad over the ranks, in place, then divide it.",
    ),
)  # fmt: skip

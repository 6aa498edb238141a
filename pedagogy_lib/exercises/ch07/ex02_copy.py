"""Exercise 7.2: Copy."""

from ...course.checking import Exercise
from .regions import examine_region

EXERCISE = Exercise(
    "7.2", "Copy", examine_region,
    (
        "forward has nothing to compute, and nothing to send. What will backward need?",
        "ctx.group = group, and the same for total; return x.",
        "backward: total(gradient, group) is x's gradient. One gradient for each argument of "
        "forward behind ctx: the other two are None.",
    ),
    lab="tensor_parallel",
)  # fmt: skip

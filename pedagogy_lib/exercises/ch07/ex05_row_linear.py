"""Exercise 7.5: RowLinear."""

from ...course.checking import Exercise
from .split_layers import examine_layer

EXERCISE = Exercise(
    "7.5", "RowLinear",
    examine_layer,
    (
        "A's rows are dim 1 of linear.weight. How often is the bias added in one process, and "
        "what does every rank need to add it?",
        "self.weight = part_of(linear.weight, 1, group, unit); self.bias = linear.bias, which "
        "may be None.",
        "forward: F.linear(x, self.weight) is this rank's summand. self.leave(…, self.group) "
        "adds them up; then comes the bias.",
    ),
    lab="tensor_parallel",
    needs=("7.1", "7.3",),
)  # fmt: skip

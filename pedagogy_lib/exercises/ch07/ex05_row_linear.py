"""Exercise 7.5: RowLinear."""

from ...course.checking import Exercise
from ..kit.parts import after
from .ex01_cut import examine_cut
from .regions import examine_region
from .split_layers import examine_layer

EXERCISE = Exercise(
    "7.5", "RowLinear",
    after(examine_layer, ("7.1", "cut", examine_cut), ("7.3", "AllReduce", examine_region)),
    (
        "A's rows are dim 1 of linear.weight. How often is the bias added in one process, and "
        "what does every rank need to add it?",
        "self.weight = part_of(linear.weight, 1, group, unit); self.bias = linear.bias, which "
        "may be None.",
        "forward: F.linear(x, self.weight) is this rank's summand. self.leave(…, self.group) "
        "adds them up; then comes the bias.",
    ),
    lab="tensor_parallel",
)  # fmt: skip

"""Exercise 7.4: ColumnLinear."""

from ...course.checking import Exercise
from .split_layers import examine_layer

EXERCISE = Exercise(
    "7.4", "ColumnLinear",
    examine_layer,
    (
        "part_of makes this rank's part of a parameter, frozen or not, and notes how it was "
        "cut. Along which dim of linear.weight are A's columns?",
        "Dim 0, in units: self.weight = part_of(linear.weight, 0, group, unit). The bias has "
        "one number for each column; it may be None.",
        "forward: what has to happen to x, so that its gradient will be added up? "
        "self.enter(x, self.group). Then F.linear, and nothing more.",
    ),
    lab="tensor_parallel",
    needs=("7.1", "7.2",),
)  # fmt: skip

"""Exercise 7.3: AllReduce."""

from ...course.checking import Exercise
from .regions import examine_region

EXERCISE = Exercise(
    "7.3", "AllReduce", examine_region,
    (
        "Where does a sum appear, in the forward or in the backward? Which of the two has "
        "nothing to do?",
        "`total` returns the sum in a new tensor; backward needs nothing from forward.",
        "backward returns the gradient as it comes, and a None for each of the other two "
        "arguments of forward.",
    ),
    lab="tensor_parallel",
)  # fmt: skip

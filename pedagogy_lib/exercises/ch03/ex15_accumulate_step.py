"""Exercise 3.15: accumulate_step."""

from ...course.checking import Exercise
from .broken_loops import examine_accumulated_steps

EXERCISE = Exercise(
    "3.15", "accumulate_step", examine_accumulated_steps,
    (
        "After the step, do all ranks have the same weights? Write down what is in `total` on "
        "each rank after the last micro-batch.",
        "The gradients of the first micro-batches never travel. Averaging each of them would "
        "be right, and expensive. What could travel once?",
        "Accumulate all micro-batches on each rank; average `total` after the loop.",
    ),
)  # fmt: skip

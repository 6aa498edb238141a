"""Exercise 6.5: train_in_parts."""

from ...course.checking import Exercise
from .broken_zero import examine_parts

EXERCISE = Exercise(
    "6.5", "train_in_parts", examine_parts,
    (
        "Take 11 numbers and 3 ranks, and write down which numbers are in which part.",
        "What is in no part is updated by nobody. If a part has length // n numbers, what is "
        "left over? Round up instead.",
        "Then n parts are longer than `values`. Put zeros at its end, F.pad(values, (0, …)), "
        "so that all parts are equally long. The program pads the gradient already, and cuts "
        "the padding off at the end.",
    ),
)  # fmt: skip

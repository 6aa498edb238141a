"""Exercise 1.1: house_gradients."""

from ...course.checking import Exercise
from .formulas import examine_house

EXERCISE = Exercise(
    "1.1", "house_gradients", examine_house,
    (
        "Call the error d = y − price. The loss is d², and its derivative by y is 2 d.",
        "y = x1·w1 + x2·w2 + b. If w1 grows by a little, y grows by x1 times as much.",
        "Chain rule: multiply 2 (y − price) by x1, by x2 and by 1.",
    ),
)  # fmt: skip

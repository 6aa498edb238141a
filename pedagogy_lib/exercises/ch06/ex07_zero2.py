"""Exercise 6.7: Zero2."""

from ...course.checking import Exercise
from .stages import examine_zero2

EXERCISE = Exercise(
    "6.7", "Zero2", examine_zero2,
    (
        "is_ready is told of one parameter. When is its unit complete? And may it be reduced "
        "at once, if on another rank another unit is ready first?",
        "self.left holds the units that are to be reduced; its last one comes next, on every "
        "rank. Reduce it if nothing is left in self.missing of it.",
        "When it is reduced, the one before it may be complete already: while self.left and "
        "not self.missing[self.left[-1]]: self.reduce(self.left.pop()).",
        "end_backward: while self.left: self.reduce(self.left.pop()). What is missing there "
        "will not come any more.",
    ),
    lab="zero",
    needs=("6.3", "6.4",),
)  # fmt: skip

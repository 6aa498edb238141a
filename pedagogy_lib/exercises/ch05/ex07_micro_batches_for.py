"""Exercise 5.7: micro_batches_for."""

from ...course.checking import Exercise
from .model_states import examine_micro_batches_for

EXERCISE = Exercise(
    "5.7", "micro_batches_for", examine_micro_batches_for,
    (
        "With `count` micro-batches, how many samples are in memory at once, and what does a "
        "step need then?",
        "Try 1, 2, 3, … up to `batch`, each with one sample then. The first that divides "
        "`batch`, and fits, is the answer.",
        "batch % count == 0 and fixed + each * (batch // count) <= limit. After the loop: "
        "nothing has fitted.",
    ),
)  # fmt: skip

"""Exercise 3.11: average_buckets."""

from ...course.checking import Exercise
from .averaging import examine_average_buckets

EXERCISE = Exercise(
    "3.11", "average_buckets", examine_average_buckets,
    (
        "flatten and unflatten are there already: look at what they do with None.",
        "For each bucket: flatten, all-reduce, divide, unflatten.",
        "flatten makes a copy. So the `.grad` change only when unflatten puts the parts back.",
    ),
    lab="gradient_sync_visualizer",
)  # fmt: skip

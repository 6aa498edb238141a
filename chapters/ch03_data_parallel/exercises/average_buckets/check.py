"""Gradients averaged in buckets."""

from coursekit.kit import first_true

from ..shared.mean_gradients import make_averaging_exercise
from .cases import buckets_of

NUMBER_OF_BUCKETS = 5  # not a power of any number of ranks


def why_other_count(count, gradients) -> str:
    return first_true({
        "": count == NUMBER_OF_BUCKETS,
        "every parameter still has an all-reduce of its own. Send a bucket's gradients as one flat "
        "tensor: flatten makes it": count == gradients,
        "all buckets travel as one. A bucket is to be on its way before the next one is ready: one "
        "all-reduce for each": count == 1,
        "asked is one all-reduce for each bucket": True,
    })  # fmt: skip


EXERCISE = make_averaging_exercise(
    "average_buckets",
    buckets_of,
    why_other_count,
    lab="gradient_sync_visualizer",
    hints=(
        "flatten and unflatten are there already: look at what they do with None.",
        "For each bucket: flatten, all-reduce, divide, unflatten.",
        "flatten makes a copy. So the `.grad` change only when unflatten puts the parts back.",
    ),
)

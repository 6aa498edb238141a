"""Gradients averaged in buckets."""

from ..kit import first_true
from .mean_gradients import averaging

NUMBER_OF_BUCKETS = 4


def call_with_buckets(answer, model, group):
    """The trainable parameters, the last first: 2, 3, 1, and the others."""
    p = [parameter for parameter in reversed(list(model.parameters())) if parameter.requires_grad]
    answer([p[:2], p[2:5], p[5:6], p[6:]], group)


def why_other_count(count, gradients) -> str:
    return first_true({
        "": count == NUMBER_OF_BUCKETS,
        "every parameter still has an all-reduce of its own. Send a bucket's gradients as one flat "
        "tensor: flatten makes it": count == gradients,
        "all buckets travel as one. A bucket is to be on its way before the next one is ready: one "
        "all-reduce for each": count == 1,
        "asked is one all-reduce for each bucket": True,
    })  # fmt: skip


EXERCISE = averaging(
    "3.9",
    "average_buckets",
    call_with_buckets,
    why_other_count,
    lab="gradient_sync_visualizer",
    hints=(
        "flatten and unflatten are there already: look at what they do with None.",
        "For each bucket: flatten, all-reduce, divide, unflatten.",
        "flatten makes a copy. So the `.grad` change only when unflatten puts the parts back.",
    ),
)

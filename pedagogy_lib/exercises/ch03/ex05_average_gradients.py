"""Exercise 3.5: average_gradients."""

from ...course.checking import Exercise
from .averaging import examine_average_gradients

EXERCISE = Exercise(
    "3.5", "average_gradients", examine_average_gradients,
    (
        "A mean is a sum over the ranks, divided by how many there are. dist.all_reduce makes "
        "the sum, in place.",
        "Rank 0 may have a gradient where rank 1 has None. If rank 1 passes over it, which "
        "of its calls is rank 0's call matched with?",
        "Go through model.parameters(). Where requires_grad is False, there is nothing to do. "
        "Where `.grad` is None, make it torch.zeros_like(parameter). Then all_reduce, with the "
        "group, and divide by dist.get_world_size(group).",
    ),
    lab="simple_ddp",
)  # fmt: skip

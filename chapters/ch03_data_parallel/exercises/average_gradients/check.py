"""Gradients averaged one at a time."""

from ..shared.mean_gradients import make_averaging_exercise
from .cases import whole_model


def why_so_many_calls(count, gradients) -> str:
    if count > gradients + 1:  # one more may ask which ranks have None
        return f"one for each of {gradients} parameters is enough; each call costs a latency"
    return ""


EXERCISE = make_averaging_exercise(
    "average_gradients",
    whole_model,
    why_so_many_calls,
    lab="simple_ddp",
    hints=(
        "A mean is a sum over the ranks, divided by how many there are. dist.all_reduce makes "
        "the sum, in place.",
        "Rank 0 may have a gradient where rank 1 has None. If rank 1 passes over it, which "
        "of its calls is rank 0's call matched with?",
        "Go through model.parameters(). Where requires_grad is False, there is nothing to do. "
        "Where `.grad` is None, make it torch.zeros_like(parameter). Then all_reduce, with the "
        "group, and divide by dist.get_world_size(group).",
    ),
)

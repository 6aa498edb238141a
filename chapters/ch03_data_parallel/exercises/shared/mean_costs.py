"""The cost of averaging the gradients of a model, one at a time or in buckets."""

import torch
import torch.distributed as dist

from coursekit.kit.reference_training import EveryKind

from ..start_equal.cases import LARGE
from .large_models import cost_of_large


def average_large(given, answer, group):
    large = large_with_gradients(dist.get_rank(group))
    argument = given(large)
    return cost_of_large(lambda: answer(argument, group), lambda: slopes_of(large), group)


def large_with_gradients(place):
    large = EveryKind(**LARGE).float()
    for parameter in large.parameters():
        if parameter.requires_grad:  # whole numbers, which float32 does not round
            numbers = torch.arange(parameter.numel(), dtype=torch.float32) % 7 + 1
            parameter.grad = numbers.view_as(parameter) * 2 * (place + 1)
    return large


def slopes_of(model):
    """Return {name: `.grad`}."""
    return {name: parameter.grad for name, parameter in model.named_parameters()}

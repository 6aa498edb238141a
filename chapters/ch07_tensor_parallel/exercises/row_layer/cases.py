"""The inputs of each rank, and the call of the answer."""

import torch
import torch.distributed as dist

from coursekit.kit.collective_exercise import numbers

INPUTS, OUTPUTS = 2, 3  # INPUTS of each rank


def inputs(rank, lead) -> dict:
    """Return a rank's x, weight and bias.

    lead  dims of x before its inputs
    """
    draw = lambda rank, salt, *shape: numbers(rank, shape, torch.float64, salt) / 3  # noqa: E731
    return {
        "x": draw(rank, 0, *lead, INPUTS),
        "weight": draw(rank, 1, OUTPUTS, INPUTS),
        "bias": draw(0, 2, OUTPUTS),
    }


def slope_of(lead):
    """Return the slope of y, equal on all ranks because they compute the same loss from y."""
    return numbers(0, (*lead, OUTPUTS), torch.float64, 3)


def prepare(answer, case):
    leaves = {name: x.requires_grad_() for name, x in inputs(dist.get_rank(), *case.args).items()}
    return lambda: answer(*leaves.values()), leaves, slope_of(*case.args)

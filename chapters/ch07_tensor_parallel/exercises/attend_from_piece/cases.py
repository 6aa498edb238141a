"""The pieces of each rank, and the call of the answer."""

import torch
import torch.distributed as dist

NAMES = ("q", "k", "v")


def whole_inputs(n, shape) -> dict:
    """Return the queries, keys, values and slope of the whole context.

    shape  of a rank's piece: samples, heads, places, size
    """
    source = torch.Generator().manual_seed(11)
    samples, heads, length, size = shape
    draw = lambda: torch.randn(  # noqa: E731
        samples, heads, n * length, size, generator=source, dtype=torch.float64
    )
    return {name: draw() for name in (*NAMES, "slope")}


def piece_of(tensors, place, n) -> dict:
    """Return a rank's places of each tensor, in its own memory."""
    return {name: x.chunk(n, dim=2)[place].clone() for name, x in tensors.items()}


def prepare(answer, case):
    n = dist.get_world_size()
    leaves = piece_of(whole_inputs(n, case.args), dist.get_rank(), n)
    slope = leaves.pop("slope")
    for leaf in leaves.values():
        leaf.requires_grad_()
    return lambda: answer(*leaves.values()), leaves, slope

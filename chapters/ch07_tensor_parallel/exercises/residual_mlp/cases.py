"""The inputs of each rank, and the call of the answer."""

import torch
import torch.distributed as dist
from torch import nn

WIDTH, HIDDEN, LEAD = 4, 3, (2, 3)  # HIDDEN features on each rank
CUT = {"down": 1, "up": 0}  # the dim along which each cut parameter is cut


def block_inputs(n) -> dict:
    """Return one process's slope of y, and its leaves, starting with those next to y."""
    source = torch.Generator().manual_seed(7)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return {
        "slope": draw(*LEAD, WIDTH), "bias": draw(WIDTH), "down": draw(WIDTH, n * HIDDEN),
        "up": draw(n * HIDDEN, WIDTH), "norm.weight": draw(WIDTH), "norm.bias": draw(WIDTH),
        "x": draw(*LEAD, WIDTH),
    }  # fmt: skip


def cut_for_rank(tensors, place, n) -> dict:
    """Return a rank's tensors: its part of those with hidden features, and all of the others."""
    return {
        name: x.chunk(n, CUT[name])[place].clone() if name in CUT else x
        for name, x in tensors.items()
    }


def prepare(answer, case):
    n, norm = dist.get_world_size(), nn.LayerNorm(WIDTH, dtype=torch.float64)
    leaves = cut_for_rank(block_inputs(n), dist.get_rank(), n)
    slope = leaves.pop("slope")
    for name, parameter in norm.named_parameters():
        parameter.data = leaves[f"norm.{name}"]
        leaves[f"norm.{name}"] = parameter
    for leaf in leaves.values():
        leaf.requires_grad_()
    call = lambda: answer(leaves["x"], norm, leaves["up"], leaves["down"], leaves["bias"])  # noqa: E731
    return call, leaves, slope

"""The cases, and the code that runs next to the answer."""

from functools import partial

import torch
import torch.distributed as dist

from coursekit.kit import RankCase, World
from coursekit.kit.results import detach_result
from pedagogy_lib.basics.units import format_count

from ..shared.broken_zero import Maker


def case_of(length, n, optimizer, steps):
    what = f", {length} numbers, {optimizer}, {format_count(steps, 'step')}"
    return RankCase(World(n), (length, optimizer, steps), what)


def start_of(length):
    return torch.linspace(1, 2, length, dtype=torch.float64)


def gradient_of(rank, length, values, step):
    """Return a rank's gradient, in which each number depends on all values."""
    if values.shape != (length,):
        raise ValueError(f"gradient_of() was given {len(values)} numbers, and takes {length}")
    source = torch.Generator().manual_seed(100 * rank + step)
    draw = torch.randn(length, length + 1, generator=source, dtype=torch.float64)
    return draw[:, 0] + draw[:, 1:] @ values.detach() / length


def try_parts(answer, group, case):
    length, optimizer, steps = case.args
    values, maker, rank = start_of(length), Maker(optimizer), dist.get_rank()
    got = answer(values, partial(gradient_of, rank, length), maker, steps)
    groups = [group for optimizer in maker.made for group in optimizer.param_groups]
    largest = max((sum(p.numel() for p in group["params"]) for group in groups), default=0)
    return {
        "values": detach_result(got),
        "changed": not torch.equal(values, start_of(length)),
        "all": largest if largest >= length >= 2 * dist.get_world_size() else 0,
    }

"""The code that runs next to the answer."""

import torch
import torch.distributed as dist
from torch import nn

from coursekit.kit import measure_answer
from pedagogy_lib.basics.closeness import close

F64, F16 = torch.float64, torch.float16

SIZES = [(3, 4), (7,), (2, 5, 1), (1,)]  # sizes of the shards at each place: 7, 7, 8 and 1 numbers

OVERFLOW = 256.0  # its square overflows float16; two ranks have 14 of them


def make_shards(place, kind) -> list[nn.Parameter]:
    """Return the shards of a place: parameters with gradients, and frozen ones without."""
    dtype = F16 if kind == "in float16" else F64
    frozen = nn.Parameter(torch.full((2, 2), 9.0, dtype=dtype), requires_grad=False)
    if kind == "rank 0 has only a frozen one" and place == 0:
        return [frozen]
    if kind == "rank 0 has none" and place == 0:
        return []
    shards = [nn.Parameter(torch.full((size,), 7.0, dtype=dtype)) for size in SIZES[place]]
    for number, shard in enumerate(shards):
        shard.grad = gradient_of(shard, place, number, kind)
    return [shards[0], frozen, *shards[1:]]


def gradient_of(shard, place, number, kind):
    if kind == "in float16":
        return torch.full_like(shard, OVERFLOW).detach()
    if kind == "all zeros":
        return torch.zeros_like(shard).detach()
    draw = torch.Generator().manual_seed(31 * place + number)
    whole = torch.randint(-9, 10, shard.shape, generator=draw, device="cpu")
    return whole.to(shard) + (place + 1) / 4


def clip(answer, group, case):
    kind, max_norm = case.args
    shards = make_shards(dist.get_rank(group), kind)
    had, weights = len(copies_of(shards)), [p.detach().clone() for p in shards]
    dist.barrier(group)
    with measure_answer():
        norm = answer(shards, max_norm, group)
    after = copies_of(shards)
    return {
        "changed": not close([p.detach() for p in shards], weights),
        "returned": norm is not None and (not torch.is_tensor(norm) or norm.numel() == 1),
        "norm": float(norm) if norm is not None else None,
        "lost": max(0, had - len(after)),
        "given": max(0, len(after) - had),
        "bad": sum(int((~x.isfinite()).sum()) for x in after),
        "gradients": after,
    }


def copies_of(shards):
    return [p.grad.detach().double().clone() for p in shards if p.grad is not None]

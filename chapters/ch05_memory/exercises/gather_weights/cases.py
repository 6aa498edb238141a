"""The code that runs next to the answer."""

import math

import torch
import torch.distributed as dist

from coursekit.kit import measure_answer
from coursekit.kit.collective_exercise import LARGE
from coursekit.kit.results import detach_result

DIFFERENT, SMALL, BYTES = "different shards", "vectors of small numbers", "bytes"
ONE_ZERO, ALL_ZERO, ANY = "zeros on rank 0", "zeros on all ranks", "3 dimensions"
SHAPES = {SMALL: (7,), ANY: (3, 2, 5), BYTES: (LARGE // 250, 250)}


def largest_of(kind) -> float:
    """Return the largest magnitude of the whole weight: 448 times no power of two."""
    return 3e-4 if kind == SMALL else 0.3


def make_shard(place, n, kind) -> torch.Tensor:
    """Return a rank's shard; the largest magnitude of all is negative, on a rank in the middle.

    Divided by the right scale, each number is near one of E4M3, so that rounding leaves no doubt.
    """
    shape, middle = SHAPES.get(kind, (3, 10)), (n - 1) // 2
    source = torch.Generator().manual_seed(10 * n + place)
    codes = torch.randint(40, 120, (math.prod(shape),), generator=source, dtype=torch.uint8)
    off = 1 + (torch.rand(codes.shape, generator=source) - 0.5) / 40
    elements = codes.view(torch.float8_e4m3fn).float() * off / 4.0 ** ((middle - place) % n)
    elements *= torch.randint(0, 2, codes.shape, generator=source) * 2 - 1
    shard = elements * (largest_of(kind) / 448)
    if place == middle:
        shard[4] = -largest_of(kind)
    if kind == ALL_ZERO or (kind == ONE_ZERO and place == 0):
        shard.zero_()
    return shard.view(shape)


def try_gather(answer, group, case):
    (kind,) = case.args
    shard = make_shard(dist.get_rank(group), dist.get_world_size(group), kind)
    before = shard.clone()
    with measure_answer():
        got = answer(shard, group)
    is_tensor = isinstance(got, torch.Tensor)
    return {
        "changed": not torch.equal(shard, before),
        "nans": int(got.isnan().sum()) if is_tensor and got.is_floating_point() else 0,
        "whole": detach_result(got),
    }

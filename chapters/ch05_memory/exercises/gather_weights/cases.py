"""The code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import measure_answer
from coursekit.kit.collective_exercise import LARGE
from coursekit.kit.results import detach_result

KINDS = ("different shards", "zeros on the last rank", "zeros on all ranks", "bytes")


def make_shard(place, n, kind) -> torch.Tensor:
    """Return a rank's shard; the largest magnitude of all is 448 / 1,024, and negative."""
    shape = (LARGE // 250, 250) if kind == "bytes" else (3, 10)
    source = torch.Generator().manual_seed(10 * n + place)
    shard = (torch.rand(shape, generator=source) - 0.5) * 0.3 / 4.0**place
    if place == 0:
        shard[1, 2] = -448 / 1024
    if kind == "zeros on all ranks" or (kind == "zeros on the last rank" and place == n - 1):
        shard.zero_()
    return shard


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

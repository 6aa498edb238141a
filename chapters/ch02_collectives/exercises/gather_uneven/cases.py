"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from coursekit.kit import measure_answer
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.observed_calls import all_waited

LARGE = (50_000, 70_000, 20_000)
AS_PADDING = ", a number that is also the padding"


def shard_of(place, case) -> torch.Tensor:
    """Return numbers that need their dtype: tenths, whole ones above 2**53, NaN in float32."""
    lengths, dtype = case.args
    shard = numbers(place, (lengths[place],), dtype, salt=3) - 3
    if dtype == torch.int64:
        return shard + 2**60
    shard = shard * 0.1
    if dtype == torch.float32:
        shard[:1] = torch.nan
    return shard


def gather(answer, group, case):
    shard, lengths = shard_of(dist.get_rank(group), case), list(case.args[0])
    with measure_answer(), all_waited(), Padding(shard) as padding:
        whole = answer(shard, lengths, group)
    is_tensor = isinstance(whole, torch.Tensor)
    return {
        "whole": without_nan(whole) if is_tensor else whole,
        "shard": without_nan(shard),
        "is_changed": lengths != list(case.args[0]),
        "is_fooled": case.what == AS_PADDING and is_fooled(answer, group, case, padding.numbers),
        "is_shared": is_tensor and (whole is shard or is_memory_of(whole, shard)),
    }


class Padding(TorchDispatchMode):
    """The numbers that an all-gather sends behind a shard."""

    def __init__(self, shard):
        super().__init__()
        self.shard, self.numbers = shard, []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if "allgather" in str(operation):
            sent = args[1][0] if isinstance(args[1], (list, tuple)) else args[1]
            if sent.dtype == self.shard.dtype:
                self.numbers = sent.flatten()[len(self.shard) :].tolist()
        return operation(*args, **(kwargs or {}))


def is_fooled(answer, group, case, padding) -> bool:
    """Return whether the answer takes a number of a shard for padding if it is the same number."""
    lengths, n = case.args[0], dist.get_world_size(group)
    of_ranks = [None] * n
    dist.all_gather_object(of_ranks, padding, group=group)
    numbers = [number for of_rank in of_ranks for number in of_rank]
    if not numbers:
        return False
    shards = [shard_of(place, case) for place in range(n)]
    for shard in shards:
        shard[:1] = numbers[0]
    found = answer(shards[dist.get_rank(group)], list(lengths), group)
    wanted = torch.cat(shards)
    return not (found.shape == wanted.shape and torch.equal(*map(without_nan, (found, wanted))))


def without_nan(x) -> torch.Tensor:
    """Return x with -7 in place of NaN, which equals nothing."""
    return x.nan_to_num(nan=-7.0)


def is_memory_of(x, y) -> bool:
    return x.numel() > 0 and x.data_ptr() == y.data_ptr()

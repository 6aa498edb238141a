"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import measure_answer
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.observed_calls import all_waited

LARGE = (50_000, 70_000, 20_000)


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
    with measure_answer(), all_waited():
        whole = answer(shard, lengths, group)
    is_tensor = isinstance(whole, torch.Tensor)
    return {
        "whole": without_nan(whole) if is_tensor else whole,
        "shard": without_nan(shard),
        "is_changed": lengths != list(case.args[0]),
        "is_shared": is_tensor and (whole is shard or is_memory_of(whole, shard)),
    }


def without_nan(x) -> torch.Tensor:
    """Return x with -7 in place of NaN, which equals nothing."""
    return x.nan_to_num(nan=-7.0)


def is_memory_of(x, y) -> bool:
    return x.numel() > 0 and x.data_ptr() == y.data_ptr()

"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import measure_answer
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.observed_calls import all_waited

LARGE = (50_000, 70_000, 20_000)


def shard_of(place, case) -> torch.Tensor:
    """Return whole numbers from -2 to 4, with a zero among them."""
    lengths, dtype = case.args
    return numbers(place, (lengths[place],), dtype, salt=3) - 3


def gather(answer, group, case):
    shard, lengths = shard_of(dist.get_rank(group), case), list(case.args[0])
    with measure_answer(), all_waited():
        whole = answer(shard, lengths, group)
    is_changed = lengths != list(case.args[0])
    return {"whole": whole, "shard": shard, "is_changed": is_changed}

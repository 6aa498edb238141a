"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist
from torch.utils.flop_counter import FlopCounterMode

from coursekit.kit import GROUP, RankCase, World, measure_answer
from coursekit.kit.observed_calls import AllRequests
from coursekit.kit.results import detach_result
from pedagogy_lib.measuring.bytes_of_calls import tensors_in

SMALL = ((4, 3), (2, 5), (2, 2), (6, 1))  # rows and columns of a shard, not of a matrix
LARGE = ((96, 128), (64, 96), (64, 160))

CASES = [
    RankCase(World(2), (SMALL, (1, 0, 0, 1)), ", four matrices"),
    RankCase(World(3), (SMALL, (2, 2, 0, 2)), ", rank 1 owns none"),
    RankCase(World(1), (SMALL[:2], (0, 0))),
    RankCase(GROUP, (SMALL, (0, 1, 2, 0))),
    RankCase(World(2), ((), ()), ", no matrix"),
    RankCase(World(4), (LARGE, (3, 1, 0)), ", large matrices"),
]


def matrices_of(shapes, n) -> list[torch.Tensor]:
    """Return the whole matrices, with different numbers in all rows."""
    chance = torch.Generator().manual_seed(7)
    return [torch.randn(n * rows, columns, generator=chance, dtype=torch.float64)
            for rows, columns in shapes]  # fmt: skip


class Events(AllRequests):
    """A record of what a rank does, in order: the names of calls, and "compute" for products."""

    def __init__(self):
        super().__init__()
        self.names, self.dtypes = [], set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        before = len(self.made)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.names += [call.name for call in self.made[before:]]
        if self.made[before:]:
            self.dtypes |= {x.dtype for x in tensors_in(args)}
        if func.overloadpacket.__name__ in ("mm", "addmm", "bmm", "baddbmm"):
            self.names.append("compute")
        return result


def try_owners(answer, group, case):
    shapes, owners = case.args
    place, n = dist.get_rank(group), dist.get_world_size(group)
    shards = [m.chunk(n)[place].clone() for m in matrices_of(shapes, n)]
    before, given = [shard.clone() for shard in shards], list(owners)
    dist.barrier(group)
    with measure_answer(), FlopCounterMode(display=False) as counter, Events() as events:
        found = answer(shards, given, group)
    events.need_waited()
    is_list = isinstance(found, (list, tuple)) and all(map(torch.is_tensor, found))
    return {
        "kind": type(found).__name__ if not is_list else "",
        "count": len(found) if is_list else 0,
        "rows": list(detach_result(list(found))) if is_list else [],
        "changed": any(map(differs, shards, before)) or given != list(owners),
        "flops": counter.get_total_flops(),
        "events": events.names,
        "pickled": {torch.uint8, torch.int64} <= events.dtypes,  # bytes, and how many they are
        "kept": bytes_kept(found) - sum(s.nbytes for s in shards)
        if is_list and shapes == LARGE
        else 0,
    }


def bytes_kept(tensors) -> int:
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in tensors}
    return sum(storages.values())


def differs(a, b) -> bool:
    return not torch.equal(a, b)

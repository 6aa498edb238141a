"""The code that runs next to the answer."""

import contextlib

import torch.distributed as dist

from coursekit.kit import Rejection, measure_answer
from coursekit.kit.collective_exercise import numbers
from pedagogy_lib.basics.torch_private import ResizesWatched, is_in_storage, is_same_storage

from ..shared.units_in_memory import UnitProbe, length_of_shard

LARGE = [(2, 60_000), (), (399,)]

NEW = -1  # marks new memory

IN_BYTES = "a storage counts bytes, whatever the dtype: flat.nbytes, not the number of its elements"


def gather_disposed(answer, group, case):
    dtype, shapes, times, stays = case.args
    held = UnitProbe(answer, group, dtype, shapes)
    unit, parameters = held.unit, list(held.unit.parameters)  # the objects that a model holds
    for time in range(times):
        held.shard.data.copy_(shard_of(dist.get_rank(group), unit.n, case, time))
        if not (stays and time):  # otherwise flat keeps its memory, with the old shards
            held.resize(0)
            for p in parameters:
                p.data = p.new_empty(0)
        dist.barrier(group)
        with measure_answer(), mark_new_memory(held):
            answer(unit)
    found, is_there = held.look(), held.storage.nbytes() == unit.flat.nbytes
    found |= {
        "bytes": held.storage.nbytes(),
        "flat": unit.flat.detach().clone() if is_there else None,
        "chunks_apart": [k for k, chunk in enumerate(unit.chunks) if is_apart(chunk, held)],
        "shown": [p.detach().clone() for p in parameters] if is_there else None,
        "apart": [k for k, p in enumerate(parameters) if is_apart(p, held)],
        "history": unit.flat.requires_grad or not all(p.is_leaf for p in parameters),
    }
    return found | {"slopes": held.slope() if is_there and not found["history"] else None}


def shard_of(place, n, case, time):
    """Return a shard as the optimizer has left it before the call with index `time`."""
    dtype, shapes, *_ = case.args
    return numbers(place, (length_of_shard(n, shapes),), dtype, 10 + time)


def is_apart(tensor, held) -> bool:
    return not is_in_storage(tensor, held.storage)


@contextlib.contextmanager
def mark_new_memory(held):
    """Fill new memory with NEW, so that no old value survives; refuse too small a storage."""
    flat, needed = held.unit.flat, held.unit.flat.nbytes

    @contextlib.contextmanager
    def fill(storage, size):
        is_own, before = is_same_storage(storage, held.storage), storage.nbytes()
        if is_own and 0 < size < needed:
            raise Rejection(f"flat's storage gets {size} bytes, it needs {needed}", IN_BYTES)
        yield
        if is_own and size > before:
            flat.new_empty(0).detach().set_(storage).fill_(NEW)

    with ResizesWatched(fill):
        yield

# Built from chapters/ch02_collectives/labs/collectives_called.py by `make build`.
"""Collectives as programs call them: begun and waited for, flat, coalesced, and with objects.

torchrun --nproc-per-node 2 labs/collectives_called.py
"""

import threading
import time
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from pedagogy_lib import measure

WIDTH = 256  # of the matrices that are multiplied
span = partial(measure, memory=False, wire=False)  # a bar in a picture

# PyTorch 2.13 has new names for the two flat calls, and warns of the old ones.
all_gather_flat = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
reduce_scatter_flat = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


# ---- Begun and waited for -------------------------------------------------------------------


def compute(products):
    """Multiply two matrices, `products` times."""
    x = torch.ones(WIDTH, WIDTH)
    for _ in range(products):
        x @ x


def count_products(seconds) -> int:
    """Count the products that a rank computes in `seconds` while the others do, too.

    Returns  the same number on all ranks, that of the slowest
    """
    compute(10)  # warms up
    dist.barrier()
    end, products = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        compute(1)
        products += 1
    fewest = torch.tensor(products)
    dist.all_reduce(fewest, dist.ReduceOp.MIN)
    return int(fewest)


def watch(work) -> threading.Thread:
    """Wait for a collective in another thread, which measures it as "all_reduce"; return it."""

    def wait():
        with span("all_reduce"):
            work.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def one_after_another(x, products):
    with span("compute"):
        compute(products)
    with span("all_reduce"):
        dist.all_reduce(x)


def meanwhile(x, products):
    message = watch(dist.all_reduce(x, async_op=True))
    with span("compute"):
        compute(products)
    with span("wait"):
        message.join()


def compare_orders(numbers, seconds, rounds=1):
    """Measure both orders of an all-reduce of `numbers` elements and `seconds` of computing."""
    x, products = torch.ones(numbers), count_products(seconds)
    dist.all_reduce(x)  # opens the connections
    for _ in range(rounds):
        for label, way in (("one after another", one_after_another), ("meanwhile", meanwhile)):
            x.fill_(1.0)
            dist.barrier()
            with span(label):
                way(x, products)
            if not (x == dist.get_world_size()).all():
                raise ValueError(f"{label}: this is not the sum")


# ---- Flat -----------------------------------------------------------------------------------


def gather_list(shard):
    """Return all ranks' shards as one tensor, gathered into a list and then joined."""
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts)


def gather_flat(shard):
    """Return all ranks' shards as one tensor, gathered straight into it."""
    whole = shard.new_empty(dist.get_world_size() * len(shard))
    all_gather_flat(whole, shard)
    return whole


GATHERS = {"a list, then torch.cat": gather_list, "one flat tensor": gather_flat}


def gather_uneven(shard, lengths, group=None):
    """Exercise 2.16. Return all ranks' shards as one tensor, without padding.

    shard    one dimension, with lengths[k] elements on the group's rank k
    lengths  a list, the same on all ranks
    Equals   torch.cat of all shards
    Cost     one all-gather of shards padded to the longest
    """
    ### BEGIN SOLUTION
    n, most = dist.get_world_size(group), max(lengths)
    padded, everything = shard.new_zeros(most), shard.new_empty(n * most)
    padded[: len(shard)] = shard
    all_gather_flat(everything, padded, group=group)
    rows = everything.view(n, most)
    return torch.cat([row[:length] for row, length in zip(rows, lengths)])
    ### END SOLUTION


def measure_ways(ways, x, rounds):
    """Measure functions of one argument: the memory of one call each, and then rounds in turn."""
    for name, way in ways.items():
        time.sleep(0.05)  # until Gloo's threads have freed the tensors of the call before
        with measure(f"{name}: memory"):
            way(x)
    for _ in range(rounds):
        for name, way in ways.items():
            dist.barrier()
            with measure(name, memory=False):
                way(x)


def measure_gathers(numbers, rounds=15) -> bool:
    """Measure both gathers of `numbers` elements in turn; return whether they give the same."""
    shard = torch.full((numbers,), float(dist.get_rank()))
    is_same = torch.equal(*(way(shard) for way in GATHERS.values()))
    measure_ways(GATHERS, shard, rounds)
    return is_same


def rows_of_ways(run, unit, own) -> list[list[str]]:
    """Return a row per way: in units of bytes, what rank 0 sends and its memory; and its time.

    unit  bytes that count as 1
    own   bytes of the rank's own tensors, which are not counted as memory
    """
    rows = []
    for name in run.labels:
        if name.endswith(": memory"):
            continue
        sent = run[name].sent_bytes[0] / len(run[name].rounds) / unit
        memory = (run[f"{name}: memory"].peak_bytes[0]["total"] - own) / unit
        rows.append([name, f"{sent:.2f}", f"{memory:.1f}", f"{1e3 * min(run[name].rounds):.1f} ms"])
    return rows


# ---- Coalesced ------------------------------------------------------------------------------


def each_alone(tensors):
    for x in tensors:
        dist.all_reduce(x)


def all_begun(tensors):
    for work in [dist.all_reduce(x, async_op=True) for x in tensors]:
        work.wait()


def coalesced(tensors):
    from torch.distributed.distributed_c10d import _coalescing_manager  # no public name

    with _coalescing_manager():
        for x in tensors:
            dist.all_reduce(x)


def in_a_bucket(tensors):
    flat = torch.cat(tensors)
    dist.all_reduce(flat)
    for x, part in zip(tensors, flat.split([len(x) for x in tensors]), strict=True):
        x.copy_(part)


WAYS = {"one call after another": each_alone, "all begun, then waited for": all_begun,
        "coalesced": coalesced, "by hand, in a bucket": in_a_bucket}  # fmt: skip


def measure_small_sums(calls=64, numbers=1000, rounds=9):
    """Measure all-reduces of many small tensors in four ways, in turn."""
    tensors, n = list(torch.ones(calls, numbers)), dist.get_world_size()
    for number in range(1 + rounds):
        for name, way in WAYS.items():
            torch._foreach_zero_(tensors)
            torch._foreach_add_(tensors, 1.0)
            dist.barrier()
            with measure(f"{name}, first" if number == 0 else name, memory=False):
                way(tensors)
            if not all((x == n).all() for x in tensors):
                raise ValueError(f"{name}: this is not the sum")


def rows_of_small_sums(run, data_bytes, headers) -> list[list[str]]:
    """Return a row per way: messages that rank 0 sent, and its fastest and median round.

    data_bytes  bytes that rank 0 sends besides headers, of which a message has `headers` bytes
    """
    rows = []
    for name in WAYS:
        times = sorted(run[name].rounds)
        messages = (run[name].sent_bytes[0] / len(times) - data_bytes) / headers
        shown = (f"{1e3 * t:.1f} ms" for t in (times[0], times[len(times) // 2]))
        rows.append([name, f"{messages:.0f}", *shown])
    return rows


# ---- Objects --------------------------------------------------------------------------------


def make_state(width=256, layers=4) -> dict:
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(layers))).state_dict()


def gather_objects(state) -> list:
    states = [None] * dist.get_world_size()
    dist.all_gather_object(states, state)
    return states


def gather_tensors(state) -> list:
    """Gather the tensors of the ranks' states, all packed into one, whose layout is known."""
    whole = gather_flat(torch.cat([x.flatten() for x in state.values()]))
    sizes = [x.numel() for x in state.values()]
    rows = [row.split(sizes) for row in whole.view(dist.get_world_size(), -1)]
    return [{name: part.view(x.shape) for (name, x), part in zip(state.items(), row, strict=True)}
            for row in rows]  # fmt: skip


def measure_objects(rounds=7) -> tuple[int, bool]:
    """Measure a gather of states as objects and as tensors, in turn.

    Returns  the bytes of a state's tensors, and whether both ways gave the same
    """
    torch.manual_seed(dist.get_rank())
    state = make_state()
    ways = {"all_gather_object": gather_objects, "as tensors": gather_tensors}
    is_same = are_equal(*(way(state) for way in ways.values()))
    measure_ways(ways, state, rounds)
    return sum(x.nbytes for x in state.values()), is_same


def measure_view(numbers=1_000_000):
    """Measure gathers of a view of ten out of `numbers` elements, and of its clone, as objects."""
    view = torch.zeros(numbers)[:10]
    for name, x in (("the view", view), ("its clone", view.clone())):
        with measure(name, memory=False):
            gather_objects(x)


def are_equal(states, others) -> bool:
    pairs = zip(states, others, strict=True)
    return all(torch.equal(one[name], other[name]) for one, other in pairs for name in one)


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(measure_objects)
    if run.rank == 0:
        print("the states of all ranks, on each rank; the same in both ways:", run.values[0][1])
        state, _ = run.values[0]
        for name, sent, memory, _ in rows_of_ways(run, state, state):
            calls = len(run[f"{name}: memory"].calls[0])
            print(f"{name:20} {calls} calls, sends {sent} states, needs memory for {memory}")


if __name__ == "__main__":
    main()

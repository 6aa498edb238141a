# Built from chapters/ch02_collectives/labs/collectives_measured.py by `make build`.
"""Measurements of collectives: their bytes, which ranks communicate, and time on slow cards.

torchrun --nproc-per-node 4 labs/collectives_measured.py
"""

import contextlib
import os
import queue
import threading
import time
from itertools import product

import torch
import torch.distributed as dist

# ---- Bytes ----------------------------------------------------------------------------------


def sum_up(ways, nbytes: int):
    """Measure an all-reduce of `nbytes` in each of `ways`, {name: function of a tensor}."""
    from pedagogy_lib import measure

    n = dist.get_world_size()
    for name, way in ways.items():
        x = torch.full((nbytes // 8,), dist.get_rank() + 1.0, dtype=torch.float64)
        dist.barrier()
        with measure(name, memory=False):
            way(x)
        if not (x == n * (n + 1) / 2).all():
            raise ValueError(f"{name}: rank {dist.get_rank()} has not got the sum")


def rows_of_senders(run) -> list[list[str]]:
    """Return a row per way of `sum_up`: MB sent by rank 0, the busiest other rank, and all."""
    rows = []
    for name in run.labels:
        first, *others = run[name].sent_bytes
        counts = first, max(others), first + sum(others)
        rows.append([name, *(f"{count / 1e6:.2f} MB" for count in counts)])
    return rows


def receivers(block) -> list[list[int]]:
    """List for each rank the ranks to which it sent over a hundredth of all bytes of a block."""
    matrix = block.traffic()
    least = sum(map(sum, matrix)) / 100
    return [[k for k, sent in enumerate(row) if sent > least] for row in matrix]


def peers(block) -> str:
    """Describe the `receivers` of a block in words: `0 to 1, 2; 1 to 3`."""
    return "; ".join(f"{rank} to {', '.join(map(str, to))}"
                     for rank, to in enumerate(receivers(block)) if to)  # fmt: skip


X_BYTES = 1_920_000  # divisible by 2, 3, 4 and 8


def every_collective(collectives=None):
    """Run every collective once on X = 1.92 MB, each measured under its name.

    collectives  the lab of that name, whose rings are measured, too; None: only PyTorch's calls
    """
    from pedagogy_lib import measure

    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.ones(X_BYTES // 8, dtype=torch.float64)
    chunks, mine = list(x.chunk(n)), torch.ones(len(x) // n, dtype=torch.float64)
    at_root = chunks if rank == 0 else None
    with measure("broadcast"):
        dist.broadcast(x, 0)
    with measure("reduce"):
        dist.reduce(x, 0)
    with measure("scatter"):
        dist.scatter(mine, at_root, 0)
    with measure("gather"):
        dist.gather(mine, at_root, 0)
    with measure("all_gather"):
        dist.all_gather(chunks, mine)
    with measure("all_to_all"):
        dist.all_to_all_single(torch.empty_like(x), x)
    with measure("all_reduce"):
        dist.all_reduce(x)
    with measure("reduce_scatter"):
        dist.reduce_scatter(mine, chunks)
    with measure("a reduce to each owner"):
        for owner in range(n):
            dist.reduce(chunks[owner], owner)
    if collectives:
        with measure("ring: all_reduce"):
            collectives.all_reduce_ring(x)
        with measure("ring: reduce_scatter"):
            collectives.reduce_scatter_ring(chunks)


def gloos_names() -> list[str]:
    """Return the names that PyTorch's profiler gives to the work of a reduce-scatter over Gloo."""
    x, mine = torch.ones(8), torch.ones(8 // dist.get_world_size())
    with suppress_output(), torch.profiler.profile() as profile:
        dist.reduce_scatter(mine, list(x.chunk(dist.get_world_size())))
    return sorted({event.name for event in profile.events() if "gloo" in event.name})


@contextlib.contextmanager
def suppress_output():
    """Hide stdout and stderr, where the profiler reports when it begins and ends."""
    kept = [os.dup(fd) for fd in (1, 2)]
    with open(os.devnull, "w") as nowhere:
        for fd in (1, 2):
            os.dup2(nowhere.fileno(), fd)
        try:
            yield
        finally:
            for fd, copy in zip((1, 2), kept):
                os.dup2(copy, fd)
                os.close(copy)


def measure_two_halves(collectives) -> bool:
    """Return whether the lab's reduce-scatter and then its all-gather equal an all-reduce.

    collectives  the lab of that name; both halves are measured, on X = 1.92 MB
    """
    from pedagogy_lib import measure

    x = torch.arange(X_BYTES // 8, dtype=torch.float64) + dist.get_rank()
    whole = x.clone()
    dist.all_reduce(whole)
    chunks = list(x.chunk(dist.get_world_size()))
    with measure("reduce-scatter"):
        collectives.reduce_scatter_ring(chunks)
    with measure("all-gather"):
        collectives.all_gather_ring(chunks)
    return torch.equal(x, whole)


def all_reduce_of_ranks(operation: str) -> float:
    """Return the result of an all-reduce of the rank numbers with this member of `ReduceOp`."""
    x = torch.tensor(float(dist.get_rank()))
    dist.all_reduce(x, getattr(dist.ReduceOp, operation))
    return x.item()


def sent_bytes(name, n, X) -> float:
    """Return the bytes each of n ranks has to send; X is the whole tensor's size, see part 02d."""
    return (2 if name == "all_reduce" else 1) * (n - 1) * X / n


OF_ROOTS = {  # bytes sent by the busiest rank, in X
    "broadcast": lambda n: (n - 1).bit_length(),
    "reduce": lambda n: 1,
    "scatter": lambda n: (n - 1) / n,
    "gather": lambda n: 1 / n,
}
OF_ALL = ("all_gather", "all_to_all", "all_reduce", "reduce_scatter", "ring: all_reduce",
          "ring: reduce_scatter")  # fmt: skip


def formula(name, n) -> float:
    """Return the bytes that the busiest rank has to send, in X."""
    return OF_ROOTS[name](n) if name in OF_ROOTS else sent_bytes(name.split()[-1], n, 1.0)


def busiest(run, name) -> float:
    """Return the bytes sent by the busiest rank, in X."""
    return max(run[name].sent_bytes) / X_BYTES


def rows_of_bytes(runs) -> list[list[str]]:
    """Return a row per collective: the busiest rank's bytes in X, with the formula in brackets.

    runs  {n: the run of `every_collective` on n ranks}
    """
    return [
        [name, *(f"{busiest(run, name):.3f} ({formula(name, n):.3f})" for n, run in runs.items())]
        for name in (*OF_ROOTS, *OF_ALL)
    ]


# ---- Time on slow cards ---------------------------------------------------------------------


def seconds_of(way, x, group) -> float:
    """Time a call on this rank in seconds, after a barrier of the group."""
    dist.barrier(group)
    began = time.perf_counter()
    way(x, group)
    return time.perf_counter() - began


def one_reduce(x, group):
    dist.reduce(x, 0, group=group)


def reduce_then_broadcast(x, group):
    dist.reduce(x, 0, group=group)
    dist.broadcast(x, 0, group=group)


def one_all_reduce(x, group):
    dist.all_reduce(x, group=group)


def time_on_slow_cards(collectives, sizes, rounds: int = 5) -> dict[tuple, list[float]]:
    """Time sums among the first 2, 4 and 8 ranks: {(n, bytes, name): [seconds of each round]}.

    All ways on all numbers of ranks take turns; a round before the first one opens connections.

    collectives  the lab of that name, whose tree is compared with PyTorch's own calls
    """
    took, rank = {}, dist.get_rank()

    def reduce_along_tree(x, group):
        collectives.reduce_tree(x, 0, group)

    ways = {
        "reduce along a tree": reduce_along_tree,
        "reduce": one_reduce,
        "reduce, then broadcast": reduce_then_broadcast,
        "all_reduce": one_all_reduce,
    }
    groups = {n: dist.new_group(range(n)) for n in (2, 4, 8)}
    mine = [key for key in product(groups, sizes, ways) if rank < key[0]]
    for key in mine * (1 + rounds):
        n, nbytes, name = key
        x = torch.zeros(nbytes // 4)
        took.setdefault(key, []).append(seconds_of(ways[name], x, groups[n]))
    return {key: seconds[1:] for key, seconds in took.items()}


def max_over_ranks(of_ranks) -> dict[tuple, list[float]]:
    """Return the slowest rank's seconds in each round, from all results of `time_on_slow_cards`."""
    return {
        key: [max(times) for times in zip(*(took[key] for took in of_ranks if key in took))]
        for key in of_ranks[0]
    }


def rows_of_time(took, nbytes) -> list[list[str]]:
    """Return a row per way: its fastest and slowest round, on 2, 4 and 8 ranks."""
    names = dict.fromkeys(name for _, size, name in took if size == nbytes)
    return [[name, *(format_ms_range(took[n, nbytes, name]) for n in (2, 4, 8))] for name in names]


def format_ms_range(rounds) -> str:
    return f"{1e3 * min(rounds):.1f} to {1e3 * max(rounds):.1f} ms"


def facts_of_time(took, nbytes) -> dict[str, str]:
    """Return milliseconds of each way and two verdicts on them, for the statements of part 02d.

    took  {(n, bytes, name): seconds of each round}; the fastest one is shown, and all decide
    """
    from pedagogy_lib import compare_rounds

    names = {"tree": "reduce along a tree", "reduce": "reduce"}
    of = {(n, name): seconds for (n, size, name), seconds in took.items() if size == nbytes}
    ms = {key: 1e3 * min(seconds) for key, seconds in of.items()}
    by_ranks = {
        key: ", ".join(f"{ms[n, name]:.1f}" for n in (2, 4, 8)) for key, name in names.items()
    }
    one, both = (8, "all_reduce"), (8, "reduce, then broadcast")
    faster = compare_rounds(of[one], of[both]).judge("right for large tensors", "wrong here")
    grows = compare_rounds(of[8, "reduce"], of[2, "reduce"])  # 3 if time grew logarithmically
    return by_ranks | {
        "all_reduce": f"{ms[one]:.1f}",
        "both": f"{ms[both]:.1f}",
        "faster": faster,
        "logarithmic": "depends" if grows.high < 2.5 else "not refuted here",
    }


# ---- Without ranks --------------------------------------------------------------------------


def ring_of_threads(n: int = 4) -> list[int]:
    """Run a ring all-reduce of 1, 2, …, n over queues, with one number from each of n threads."""
    pipes, sums = [queue.Queue() for _ in range(n)], [0] * n

    def member(rank):
        passing = sums[rank] = rank + 1
        for _ in range(n - 1):
            pipes[(rank + 1) % n].put(passing)
            passing = pipes[rank].get()
            sums[rank] += passing

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sums


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch

    run = launch(every_collective)
    if run.rank == 0:
        print(f"bytes sent by the busiest of {run.world_size} ranks, in sizes of the tensor")
        for name in run.labels:
            print(f"{name:24}{busiest(run, name):8.3f}   {peers(run[name])}")


if __name__ == "__main__":
    main()

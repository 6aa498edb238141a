# Built from chapters/ch02_collectives/labs/collectives_shown.py by `make build`.
"""Demonstrations of collectives: a file for friends, each rank's chunks, a film of the messages.

torchrun --nproc-per-node 4 labs/collectives_shown.py
"""

import time

import torch
import torch.distributed as dist

# ---- A file for friends ---------------------------------------------------------------------


def deliver(ways, file_bytes: int, bytes_per_second: float, latency_seconds: float = 0.0):
    """Send rank 0's file to all others in each of `ways`, over throttled links.

    ways    functions of a tensor, which is the file on rank 0 and zeros elsewhere; each is
            measured under its name
    """
    from pedagogy_lib import measure, throttle

    with throttle(bytes_per_second, latency_seconds):
        for way in ways:
            x = torch.zeros(file_bytes, dtype=torch.uint8)
            x += dist.get_rank() == 0
            dist.barrier()
            with measure(way.__name__, memory=False):
                way(x)
            if not x.all():
                raise ValueError(f"{way.__name__}: rank {dist.get_rank()} has not got the file")


def deliver_in_pieces(
    chain, counts, file_bytes: int, bytes_per_second: float, rounds=3
) -> list[list[float]]:
    """Time `chain(x, pieces)` on this rank; return its seconds in each round, for each count.

    counts  numbers of pieces
    """
    from pedagogy_lib import throttle

    x = torch.zeros(file_bytes, dtype=torch.uint8)
    took = [[0.0] * len(counts) for _ in range(rounds)]
    with throttle(bytes_per_second):
        for seconds in took:
            for k, pieces in enumerate(counts):
                dist.barrier()
                began = time.perf_counter()
                chain(x, pieces)
                seconds[k] = time.perf_counter() - began
    return took


def sums_in_groups(reduce, numbers) -> list[float]:
    """Return x after `reduce(x, 0, group)` in groups of 2, of 4, and of 8, on each of 8 ranks.

    Rank r brings numbers[r]. All ranks have to create all groups, including those they are not in.
    """
    rank, sums = dist.get_rank(), []
    for size in (2, 4, 8):
        groups = [dist.new_group(range(first, first + size)) for first in range(0, 8, size)]
        x = torch.tensor(numbers[rank], dtype=torch.float64)
        reduce(x, 0, groups[rank // size])
        sums.append(x.item())
    return sums


def pick_root_sums(sums) -> dict[int, list[float]]:
    """Return {size of a group: [the sum of each group's root]}, from `sums_in_groups`."""
    sizes = enumerate((2, 4, 8))
    return {size: [sums[rank][k] for rank in range(0, 8, size)] for k, size in sizes}


def rounds_of_a_tree(start, sums) -> dict[str, list]:
    """Return each rank's number at the start and after each round of a reduce, to be plotted.

    `plot_holdings` draws the result, in which a rank that has sent its sum has 0.

    start  the number that each rank brings
    sums   the result of `sums_in_groups` on each rank, for these numbers
    """
    held = {"at the start": [[number] for number in start]}
    for turn, (size, level) in enumerate(pick_root_sums(sums).items(), 1):
        roots = [level[rank // size] if rank % size == 0 else 0 for rank in range(8)]
        held[f"after round {turn}"] = [[number] for number in roots]
    return held


# ---- Chunks before and after ----------------------------------------------------------------


def broadcast(x):
    """Broadcast x, which has numbers on the root and zeros elsewhere."""
    dist.broadcast(x, src=0)
    return x


def scatter(x):
    """Scatter x, which has numbers on the root and zeros elsewhere."""
    mine = torch.zeros(1)
    pieces = list(x.split(1)) if dist.get_rank() == 0 else None
    dist.scatter(mine, pieces, src=0)
    return mine


def gather(x):
    """Gather x on the root; on rank k, x has chunk k, and zeros instead of the other chunks."""
    rank, mine = dist.get_rank(), x[dist.get_rank()].reshape(1).clone()
    pieces = list(torch.zeros_like(x).split(1)) if rank == 0 else None
    dist.gather(mine, pieces, dst=0)
    return torch.cat(pieces) if rank == 0 else None


def reduce(x):
    """Sum up x on the root; the contents of x on other ranks are undefined and not shown."""
    dist.reduce(x, dst=0)
    return x if dist.get_rank() == 0 else None


def reduce_scatter(x):
    """Sum up x, which has numbers on every rank, and return the sum of this rank's chunk."""
    mine = torch.zeros(1)
    dist.reduce_scatter(mine, list(x.split(1)))
    return mine


def all_gather(x):
    """Gather x on every rank; on rank k, x has chunk k, and zeros instead of the other chunks."""
    pieces = list(torch.zeros_like(x).split(1))
    dist.all_gather(pieces, x[dist.get_rank()].reshape(1).clone())
    return torch.cat(pieces)


def all_reduce(x):
    """Sum up x, which has numbers on every rank."""
    dist.all_reduce(x)
    return x


def all_to_all(x):
    """Exchange the chunks of x; the digit after the point, less one, is the chunk's number."""
    received = torch.empty_like(x)
    dist.all_to_all_single(received, x)
    return received


EIGHT = [broadcast, scatter, gather, reduce, reduce_scatter, all_gather, all_reduce, all_to_all]


def start_of(name) -> torch.Tensor:
    """Return this rank's chunks at the start: 2**rank, so that a sum shows whose numbers it has."""
    rank, n = dist.get_rank(), dist.get_world_size()
    full = torch.full((n,), 2.0**rank)
    if name in ("broadcast", "scatter"):
        return full * (rank == 0)
    if name in ("gather", "all_gather"):
        return full * torch.eye(n)[rank]
    return full + (torch.arange(n) + 1) / 10 if name == "all_to_all" else full


def record_chunks(collectives) -> dict[str, list[float]]:
    """Return this rank's chunks before each collective, and those that it gets from the call."""
    seen, rank = {}, dist.get_rank()
    for collective in collectives:
        x = start_of(collective.__name__)
        seen[f"{collective.__name__}: before"] = x.tolist()
        got, after = collective(x.clone()), torch.zeros_like(x)
        if got is not None:
            after[slice(None) if got.numel() == x.numel() else rank] = got
        seen[f"{collective.__name__}: after"] = after.tolist()
    return seen


def grids(of_ranks) -> dict[str, list]:
    """Return the chunks of all ranks under each title, for `plot_holdings`."""
    return {title: [seen[title] for seen in of_ranks] for title in of_ranks[0]}


def film_of(all_reduce):
    """Record this rank's film of how messages change a tensor with one element per rank."""
    from pedagogy_lib import film

    x = torch.full((dist.get_world_size(),), 2.0 ** dist.get_rank())
    with film(x) as seen:
        all_reduce(x)
    return seen


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch

    run = launch(record_chunks, EIGHT)
    if run.rank == 0:
        print("chunks of each rank; rank r brings 2**r, so that a sum tells who is in it")
        for title, rows in grids(run.values).items():
            print(f"{title:24}", *(" ".join(f"{x:g}" for x in row) for row in rows), sep="  | ")


if __name__ == "__main__":
    main()

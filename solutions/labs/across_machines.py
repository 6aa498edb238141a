# Built from chapters/ch02_collectives/labs/across_machines.py by `make build`.
"""All-reduce across machines, with as few bytes as possible through their network cards.

torchrun --nproc-per-node 4 labs/across_machines.py     # four ranks, as if on two machines
"""

from collections import deque

import torch
import torch.distributed as dist
from collectives import (
    all_gather_ring,
    all_reduce_ring,
    exchange,
    need_contiguous,
    reduce_scatter_ring,
)
from halving_doubling import all_reduce_halving_doubling
from message_costs import time_on_slow_links
from torch import Tensor

# ---- Process groups -------------------------------------------------------------------------


def groups_by_machine(local_size: int):
    """Create this rank's two groups: `inside` its machine, and `across` all machines.

    Ranks 0 to local_size - 1 are on machine 0, the next ones on machine 1, and so on. `inside` has
    the ranks of one machine, and `across` has the ranks with the same place on every machine. Each
    rank of the world has to call this function.
    """
    n = dist.get_world_size()
    inside = [list(range(first, first + local_size)) for first in range(0, n, local_size)]
    across = [list(range(place, n, local_size)) for place in range(local_size)]
    return tuple(dist.new_subgroups_by_enumeration(ranks)[0] for ranks in (inside, across))


# ---- A ring in any order --------------------------------------------------------------------


def ring_messages(x: Tensor, order: list[int]) -> None:
    """Send the messages of a ring all-reduce of x, along a ring that visits ranks in this order.

    They are as many and as long as in a real one, but nothing is added up, and x stays unchanged.
    Its length need not be a multiple of anything.
    """
    n, place = len(order), order.index(dist.get_rank())
    chunks = deque(x.view(-1).tensor_split(n))
    chunks.rotate(1 - place)
    for _ in range(2 * (n - 1)):
        outgoing = chunks[0]
        chunks.rotate(1)
        received = torch.empty_like(chunks[0])
        exchange(outgoing, order[(place + 1) % n], received, order[place - 1])


# ---- Two levels -----------------------------------------------------------------------------


def hierarchical_all_reduce(x: Tensor, inside, across) -> None:
    """Exercise 2.18. Add up `x` over the ranks, in three steps.

    The steps run inside the machine, across machines, and inside again. After the first step, each
    rank of a machine has one chunk of its machine's sum. Only these chunks travel from machine to
    machine.

    Equals  dist.all_reduce(x)
    Shapes  x: any, contiguous; its length need not be a multiple of anything
    Cost    for L ranks on each of M machines: 2(M-1)/M * x.nbytes / L from each rank to another
            machine, so 2(M-1)/M * x.nbytes through each card; and 2(L-1)/L * x.nbytes inside

    Ranks may be spread over the machines in any order, because the groups know the places.
    """
    need_contiguous(x)
    ### BEGIN SOLUTION
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank(inside)], across)
    all_gather_ring(chunks, inside)
    ### END SOLUTION


# ---- Comparison -----------------------------------------------------------------------------


def compare_all_reduces(
    nbytes: int, local_size: int | None = None, rounds: int = 1
) -> dict[str, bool]:
    """Measure an all-reduce of `nbytes` in each way; return for each whether the sum is right.

    local_size  ranks per machine; if None, half of all ranks, or all of them if their number is odd
    rounds      how often each way is measured, always under the same label
    """
    from pedagogy_lib import measure

    n, right = dist.get_world_size(), {}
    local_size = local_size or (n // 2 if n % 2 == 0 else n)
    inside, across = groups_by_machine(local_size)
    ways = {
        "ring": all_reduce_ring,
        "two levels": lambda x: hierarchical_all_reduce(x, inside, across),
        "halving-doubling": all_reduce_halving_doubling,
        "dist.all_reduce": dist.all_reduce,
    }
    if n & (n - 1):
        del ways["halving-doubling"]
    for name, all_reduce in ways.items():
        all_reduce(torch.ones(2 * n))  # the first messages open the connections
        for _ in range(rounds):
            x = torch.full((nbytes // 8,), dist.get_rank() + 1.0, dtype=torch.float64)
            dist.barrier()
            with measure(name, memory=False):
                all_reduce(x)
        right[name] = bool((x == n * (n + 1) / 2).all())
    return right


def time_on_equal_links(
    nbytes: int, local_size: int, alpha: float, B: float
) -> dict[str, list[list[float]]]:
    """Time the flat ring and two levels as `time_on_slow_links` does, on equal links."""
    inside, across = groups_by_machine(local_size)
    ways = {
        "ring": all_reduce_ring,
        "two levels": lambda x: hierarchical_all_reduce(x, inside, across),
    }
    return time_on_slow_links(ways, [nbytes], alpha, B)


def bytes_through_card(way: str, local_size: int, nbytes: float) -> float:
    """Return the bytes that leave one of two machines with `local_size` ranks each, by formula."""
    n = 2 * local_size
    if way == "two levels":
        return nbytes
    return local_size * nbytes if way == "halving-doubling" else 2 * (n - 1) / n * nbytes


CARD_COLUMNS = ("leaves a machine, by formula", "its card counted", "time, by formula", "measured")


def card_row(run, label: str, leaving: float, speed: float) -> list[str]:
    """Return a block's cells for CARD_COLUMNS, from `leaving` bytes and the card's `speed`."""
    rounds = len(run[label].spans[0])
    sent = [f"{card.sent_bytes / rounds / 1e6:.2f} MB" for card in run[label].cards]
    times = f"{1e3 * leaving / speed:.0f} ms", f"{1e3 * min(run[label].rounds):.0f} ms"
    return [f"{leaving / 1e6:.2f} MB", " and ".join(sent) or "–", *times]


def main(nbytes: int = 8_000_000):
    from pedagogy_lib import launch

    run = launch(compare_all_reduces, nbytes)
    if run.rank == 0:
        print(f"all-reduce of {nbytes / 1e6:g} MB on {run.world_size} ranks")
        for name, right in run.values[0].items():
            seconds, sent = max(run[name].seconds), max(run[name].sent_bytes)
            word = "right" if right else "not yet"
            print(f"{name:24}{word:8}{sent / 1e6:8.2f} MB at most{seconds * 1e3:8.1f} ms")
        print("(not yet: wrong, or not written. Two levels needs the rings of collectives.py.)")


if __name__ == "__main__":
    main()

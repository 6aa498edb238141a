# Built from chapters/ch02_collectives/labs/halving_doubling.py by `make build`.
"""Recursive halving and doubling: an all-reduce with few bytes and few messages.

torchrun --nproc-per-node 4 labs/halving_doubling.py
"""

import collectives
import torch
import torch.distributed as dist
from collectives import all_reduce_ring, all_reduce_tree, exchange, need_contiguous
from torch import Tensor


def need_power_of_two(n: int) -> None:
    """Raise ValueError if n is no power of two, because some rank would have no partner."""
    if n & (n - 1):
        raise ValueError(
            f"halving-doubling pairs ranks in each round, and with {n} ranks some have no "
            "partner: launch 2, 4 or 8 ranks, or take all_reduce_ring"
        )


def all_reduce_halving_doubling(x: Tensor, group=None) -> None:
    """Exercise 2.14. Add up every rank's `x` by halving and doubling.

    `x` is changed in place. n is the number of ranks in the group: 1, 2, 4, 8 and so on. There are
    2 log2(n) rounds, and a rank exchanges one message in each. Its partners are rank ^ n/2,
    rank ^ n/4, … rank ^ 1, and after that the same ones in the opposite order.

    First half: at the beginning, all of `x` is open. In each round, a rank cuts the open part into
    two halves. It sends one half to its partner, which sends the other half. The rank adds the
    received half to the one it keeps, which is the open part of the next round. For example, the
    partner with the lower number keeps the first half. Other orders of partners and halves pass.
    Second half: partners send each other their finished parts, which double in each round.

    Equals  dist.all_reduce(x)
    Shapes  x: any, contiguous, the same on every rank; its length need not be a multiple of n
    Cost    2 log2(n) messages; each rank sends 2(n-1)/n * x.nbytes
    Raises  ValueError if n is no power of two
    Source  Thakur, Rabenseifner and Gropp 2005 (the order of the partners is this lab's; MPICH
            begins with the nearest one)
    """
    need_contiguous(x)
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    need_power_of_two(n)
    ### BEGIN SOLUTION
    open_part, rounds, distance = x.view(-1), [], n // 2
    while distance:
        partner, middle = rank ^ distance, len(open_part) // 2
        lower, upper = open_part[:middle], open_part[middle:]
        kept, given = (lower, upper) if rank < partner else (upper, lower)
        received = torch.empty_like(kept)
        exchange(given, partner, received, partner, group)
        kept += received
        rounds.append((partner, kept, given))
        open_part, distance = kept, distance // 2
    for partner, kept, given in reversed(rounds):
        exchange(kept, partner, given, partner, group)
    ### END SOLUTION


# ---- The program ----------------------------------------------------------------------------

ALL_REDUCES = {
    "tree": all_reduce_tree,
    "ring": all_reduce_ring,
    "halving_doubling": all_reduce_halving_doubling,
    "dist.all_reduce": dist.all_reduce,
}


def compare(nbytes: int) -> dict[str, bool]:
    """Measure an all-reduce of `nbytes` in each way; return for each whether the sum is right."""
    return collectives.compare(nbytes, ALL_REDUCES, memory=True)


def rows_of_messages(run, nbytes: int) -> list[list[str]]:
    """Return a row per way in a run of `compare`: its most bytes, and the messages of rank 0."""
    rows = []
    for name in run.labels:
        calls = [call.name for call in run[name].calls[0] if call.peer is not None]
        sends, receives = calls.count("send"), len(calls) - calls.count("send")
        to = [peer for peer, sent in enumerate(run[name].traffic()[0]) if sent > nbytes / 100]
        most = f"{max(run[name].sent_bytes) / nbytes:.2f}"
        rows.append([name, most, sends or "–", receives or "–", ", ".join(map(str, to))])
    return rows


def main(nbytes: int = 8_000_000):
    from pedagogy_lib import launch

    run = launch(compare, nbytes)
    if run.rank == 0:
        print(f"all-reduce of {nbytes / 1e6:g} MB on {run.world_size} ranks")
        print(f"{'':18}{'sum':8}{'most sent':>12}{'messages':>10}")
        for name, right in run.values[0].items():
            sends = sum(call.name == "send" for call in run[name].calls[0])
            told = f"{max(run[name].sent_bytes) / 1e6:9.2f} MB{sends or '–':>10}"
            print(f"{name:18}{'right' if right else 'not yet':8}{told}")
        print("(messages: of rank 0. Gloo's own are not seen. Not yet: wrong, or not written.)")


if __name__ == "__main__":
    main()

"""The right results, and the results of known mistakes."""

from torch.utils.data import DistributedSampler


def deal_samples(n, rank, world_size) -> list[int]:
    """Return the samples that PyTorch's sampler deals, or would deal if it did not repeat any."""
    if n % world_size == 0:
        return list(DistributedSampler(range(n), world_size, rank, shuffle=False))
    return [sample for sample in range(n) if sample % world_size == rank]


def block(n, rank, world_size) -> range:
    return range(n)[n // world_size * rank : n // world_size * (rank + 1)]


def uneven_block(n, rank, world_size) -> range:
    sizes = [n // world_size + (r < n % world_size) for r in range(world_size)]
    return range(n)[sum(sizes[:rank]) : sum(sizes[: rank + 1])]


BLOCKS = "neighbours are on the same rank: each takes a block. Take every world_size-th sample"

LENGTH = "the steps have to be as long as there are ranks: go on by world_size"

MISTAKES = [
    (BLOCKS, block),
    (BLOCKS, uneven_block),
    ("all ranks take everything: a rank begins with its own number, and goes on in steps of "
     "world_size", lambda n, rank, world_size: range(n)),
    ("all ranks take the same samples: begin with the rank's own number",
     lambda n, rank, world_size: range(0, n, world_size)),
    (LENGTH, lambda n, rank, world_size: range(rank, n, 2)),
    (LENGTH, lambda n, rank, world_size: range(rank, n, rank + 1)),
    ("ranks count from 0: rank 0 begins with sample 0",
     lambda n, rank, world_size: range(rank + 1, n, world_size)),
]  # fmt: skip

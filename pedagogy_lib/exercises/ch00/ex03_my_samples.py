"""Who takes which sample."""

from torch.utils.data import DistributedSampler

from ...basics.units import counted
from ..kit import Formula

DEALS = [(32, 4), (33, 4), (12, 3), (8, 1), (10, 4), (2, 3)]  # samples, ranks
UNEVEN = "Where `n` does not divide evenly, some ranks take one sample more than others"


def dealt(n, rank, world_size) -> list[int]:
    """As PyTorch's sampler deals them; where it would repeat some to be even, one after another."""
    if n % world_size == 0:
        return list(DistributedSampler(range(n), world_size, rank, shuffle=False))
    return [sample for sample in range(n) if sample % world_size == rank]


def block(n, rank, world_size) -> range:
    return range(n)[n // world_size * rank : n // world_size * (rank + 1)]


def uneven_block(n, rank, world_size) -> range:
    sizes = [n // world_size + (r < n % world_size) for r in range(world_size)]
    return range(n)[sum(sizes[:rank]) : sum(sizes[: rank + 1])]


def why(found, case) -> str:
    """What no function can tell: samples are lost, taken twice, or there are none such."""
    n, _, _ = EXERCISE.cases[case][0]
    taken = [sample for of_rank in found[case] for sample in of_rank]
    if any(not 0 <= sample < n for sample in taken):
        return f"samples have the numbers from 0 to n - 1, so up to {n - 1} here"
    if len(taken) > len(set(taken)):
        return f"some samples are taken twice. {UNEVEN}"
    if len(taken) < n:
        return f"some samples are lost. {UNEVEN}"
    return "each sample is taken once; but sample i belongs to rank i % world_size, in this order"


BLOCKS = "neighbours are on the same rank: each takes a block. Take every world_size-th sample"
LENGTH = "the steps have to be as long as there are ranks: go on by world_size"

EXERCISE = Formula(
    "0.3",
    "my_samples",
    cases={
        f"{n} samples, {counted(ranks, 'rank')}": [(n, rank, ranks) for rank in range(ranks)]
        for n, ranks in DEALS
    },
    truth=dealt,
    told=lambda calls, _: (
        "each of them once" if calls[0][0] % len(calls) else "each rank has its own, in this order"
    ),
    differs=lambda call, wanted, got: f"rank {call[1]}: expected {wanted}, got {got}",
    asked="a list of indices",
    whole="indices are whole numbers",
    explain=why,
    mistakes=[
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
    ],
    hints=(
        "Deal them out like cards: sample 0 to rank 0, sample 1 to rank 1, and so on, round "
        "and round. Which does rank 1 get?",
        "It begins with its own number, and goes on in steps of world_size.",
        "range(start, stop, step) counts in steps; list(…) makes a list of it.",
    ),
)  # fmt: skip

"""The samples that each rank takes."""

from coursekit.kit import Formula
from pedagogy_lib.basics.units import format_count

from .truth import MISTAKES, deal_samples

DEALS = [(32, 4), (33, 4), (12, 3), (8, 1), (10, 4), (2, 3)]  # (samples, ranks)

UNEVEN = "Where `n` does not divide evenly, some ranks take one sample more than others"


def why(found, case) -> str:
    """Diagnose answers that match no known mistake: samples lost, taken twice or out of range."""
    n, _, _ = EXERCISE.cases[case][0]
    taken = [sample for of_rank in found[case] for sample in of_rank]
    if any(not 0 <= sample < n for sample in taken):
        return f"samples have the numbers from 0 to n - 1, so up to {n - 1} here"
    if len(taken) > len(set(taken)):
        return f"some samples are taken twice. {UNEVEN}"
    if len(taken) < n:
        return f"some samples are lost. {UNEVEN}"
    return "each sample is taken once; but sample i belongs to rank i % world_size, in this order"


EXERCISE = Formula(
    "my_samples",
    cases={
        f"{n} samples, {format_count(ranks, 'rank')}": [(n, rank, ranks) for rank in range(ranks)]
        for n, ranks in DEALS
    },
    truth=deal_samples,
    right=lambda calls, _: (
        "each of them once" if calls[0][0] % len(calls) else "each rank has its own, in this order"
    ),
    differs=lambda call, wanted, got: f"rank {call[1]}: expected {wanted}, got {got}",
    asked="a list of indices",
    whole="indices are whole numbers",
    explain=why,
    mistakes=MISTAKES,
    hints=(
        "Deal them out like cards: sample 0 to rank 0, sample 1 to rank 1, and so on, round "
        "and round. Which does rank 1 get?",
        "It begins with its own number, and goes on in steps of world_size.",
        "range(start, stop, step) counts in steps; list(…) makes a list of it.",
    ),
)  # fmt: skip

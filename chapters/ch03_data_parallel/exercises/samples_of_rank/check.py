"""The samples that a rank reads."""

import random
from collections import Counter

import torch

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Formula, Wrong
from pedagogy_lib.basics.units import format_count

from ..shared.state_snapshot import SEED, alike
from .cases import describe_iterators, generators
from .truth import ALL_MISTAKES, read_by_sampler

READERS = [  # (length, n, epoch, seed)
    (12, 3, 2, 7), (12, 3, 1, 0), (10, 4, 3, 0), (11, 2, 0, 5), (3, 4, 1, 0), (2, 5, 1, 3),
    (7, 1, 2, 0),
]  # fmt: skip


def calls_of(length, n, epoch, seed) -> list[tuple]:
    """Return the arguments of a call for each rank, without a seed where it is 0."""
    return [(length, epoch, rank, n, *[seed] * (seed > 0)) for rank in range(n)]


CASES = {
    f"{length} samples, {format_count(n, 'rank')}, epoch {epoch}, seed {seed}":
        calls_of(length, n, epoch, seed) for length, n, epoch, seed in READERS
}  # fmt: skip


def why_by_counting(found, case) -> str:
    got, calls = found[case], CASES[case]
    wanted = [EXERCISE.truth(*call) for call in calls]
    if any(len(samples) != len(wanted[0]) for samples in got):
        return f"everybody reads equally many: {len(wanted[0])}, which is length / n, rounded up."
    read, everything = {i for samples in got for i in samples}, set(range(calls[0][0]))
    if read - everything:
        return "samples have the numbers from 0 to length - 1."
    if everything - read:
        never = min(everything - read)
        return f"nobody reads sample {never}: all ranks have to deal out the same order."
    if all(Counter(a) == Counter(b) for a, b in zip(got, wanted)):
        return "the samples of each rank are right, but in another order."
    return (
        "the order is torch.randperm(length, generator=…) with a generator that is seeded with "
        "seed + epoch; rank r reads it from place r on, in steps of n."
    )


class RngStateFormula(Formula):
    """A formula whose answer must leave the global generators of random numbers unchanged."""

    def examine(self, answer):
        before, others = torch.get_rng_state(), random.getstate()
        given = call_next_to_answer(generators, answer)
        try:
            yield from super().examine(describe_iterators(answer))
            if not alike(call_next_to_answer(generators, answer), given):
                raise Wrong(
                    "afterwards", "the samples are right, but the global generator is not as it "
                    "was", f"{SEED}. "
                    "torch.Generator().manual_seed(…) is one of its own.",
                )  # fmt: skip
        finally:
            torch.set_rng_state(before)
            random.setstate(others)


EXERCISE = RngStateFormula(
    "samples_of_rank",
    lab="data_parallel",
    cases=CASES,
    truth=read_by_sampler,
    mistakes=ALL_MISTAKES,
    right=lambda calls, values: f"{len(values[0])} each, as DistributedSampler",
    differs=lambda call, wanted, got: f"rank {call[2]} reads {got}, expected {wanted}",
    explain=why_by_counting,
    asked="a list",
    whole="samples are whole numbers, and datasets take no others",
    shape="what is asked for is a list: the samples that the rank reads.",
    hints=(
        "Three steps: shuffle, the same on all ranks; fill up to a multiple of n; take every n-th.",
        "torch.randperm(length, generator=g) shuffles, with g = torch.Generator(), and "
        "g.manual_seed(seed + epoch). `.tolist()` makes a list of it.",
        "Everybody reads ceil(length / n), so that times n are needed. A list repeated often "
        "enough, and cut to this length, is the order continued with its own beginning.",
        "order[rank::n] is every n-th, from place `rank` on.",
    ),
)

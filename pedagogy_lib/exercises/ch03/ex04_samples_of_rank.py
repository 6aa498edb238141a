"""Which samples a rank reads."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.utils.data import DistributedSampler

from ...basics.units import counted
from ...course.checking import Wrong
from ...course.trying import there
from ..kit import Formula
from .left_alone import SEED, alike

READERS = [  # length, n, epoch, seed
    (12, 3, 2, 7), (12, 3, 1, 0), (10, 4, 3, 0), (11, 2, 0, 5), (3, 4, 1, 0), (2, 5, 1, 3),
    (7, 1, 2, 0),
]  # fmt: skip


def calls_of(length, n, epoch, seed) -> list[tuple]:
    """One for each rank; without a seed where it is 0."""
    return [(length, epoch, rank, n, *[seed] * (seed > 0)) for rank in range(n)]


CASES = {
    f"{length} samples, {counted(n, 'rank')}, epoch {epoch}, seed {seed}":
        calls_of(length, n, epoch, seed) for length, n, epoch, seed in READERS
}  # fmt: skip


def read_by_sampler(length, epoch, rank, n, seed=0) -> list[int]:
    sampler = DistributedSampler(range(length), n, rank, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


@dataclass(frozen=True)
class Given:
    """The arguments of a call, and what a mistake is made of."""

    length: int
    epoch: int
    rank: int
    n: int
    seed: int = 0

    @property
    def each(self) -> int:
        return -(-self.length // self.n)

    @property
    def missing(self) -> int:
        return self.n * self.each - self.length

    @property
    def straight(self) -> list[int]:
        return list(range(self.length))

    @property
    def order(self) -> list[int]:
        return self.shuffled(self.seed + self.epoch)

    def shuffled(self, seed, length=None) -> list[int]:
        source = torch.Generator().manual_seed(seed)
        return torch.randperm(length or self.length, generator=source).tolist()

    def filled(self, order) -> list[int]:
        return (order * self.n * self.each)[: self.n * self.each]

    def in_turns(self, order) -> list[int]:
        return order[self.rank :: self.n]

    def dealt(self, order) -> list[int]:
        return self.in_turns(self.filled(order))

    def block(self, order) -> list[int]:
        return self.filled(order)[self.rank * self.each :][: self.each]


def mixed_later(x) -> list[int]:
    part = x.dealt(x.straight)
    return [part[i] for i in x.shuffled(x.seed + x.epoch, len(part))]


OWN_ORDER = (
    "each rank shuffles in an order of its own: then some samples are read by several ranks, "
    "and others by nobody. The seed has to be the same on all ranks"
)
REPEAT = "the order is to be continued with its own beginning"
MISTAKES = [  # of a call's Given, what a rank then reads
    ("nothing is shuffled.", lambda x: x.dealt(x.straight)),
    ("nothing is shuffled, and a rank gets a block instead of every n-th sample.",
     lambda x: x.block(x.straight)),
    ("a rank reads every n-th sample of the order; you take a block of it.",
     lambda x: x.block(x.order)),
    (f"{OWN_ORDER}.", lambda x: x.dealt(x.shuffled(x.seed + x.epoch + x.rank))),
    (f"{OWN_ORDER}, and differ in each epoch.", lambda x: x.dealt(x.shuffled(x.seed + x.rank))),
    (f"{OWN_ORDER}: seed + epoch.", lambda x: x.dealt(x.shuffled(x.rank))),
    ("each epoch has the same order: seed the generator with seed + epoch.",
     lambda x: x.dealt(x.shuffled(x.seed))),
    ("seed is ignored: seed the generator with seed + epoch.",
     lambda x: x.dealt(x.shuffled(x.epoch))),
    ("the seed is seed * epoch; it should be the sum.",
     lambda x: x.dealt(x.shuffled(x.seed * x.epoch))),
    ("first all samples are shuffled, and then dealt out; you deal out first, and shuffle what "
     "each rank got: a rank would read the same samples in every epoch.", mixed_later),
    ("these are the right samples of each rank, but sorted: keep the order.",
     lambda x: sorted(x.dealt(x.order))),
    ("every rank reads everything: take every n-th, beginning with the rank's own number.",
     lambda x: x.order),
    ("some ranks read one sample less than others: continue the order with its own beginning, "
     "before you deal it out.", lambda x: x.in_turns(x.order)),
    ("what is left over is dropped, so some samples are never read: continue the order with its "
     "own beginning instead.", lambda x: x.in_turns(x.order[: x.length // x.n * x.n])),
    ("its beginning is too short to fill what is missing: repeat it as often as is needed.",
     lambda x: x.in_turns(x.order + x.order[: x.missing])),
    (f"{REPEAT}; you continue it with its end.",
     lambda x: x.in_turns(x.order + x.order[x.length - x.missing :])),
    (f"{REPEAT}; you repeat its last sample.",
     lambda x: x.in_turns(x.order + x.order[-1:] * x.missing)),
    (f"{REPEAT}; you repeat its first sample.",
     lambda x: x.in_turns(x.order + x.order[:1] * x.missing)),
    (f"{REPEAT}; you add samples 0, 1, … of the data.",
     lambda x: x.in_turns(x.order + x.straight[: x.missing])),
    (f"{REPEAT}; you continue it backwards.",
     lambda x: x.in_turns(x.order + x.order[::-1][: x.missing])),
    ("a whole round too many: if length is a multiple of n, nothing is missing.",
     lambda x: x.in_turns((x.order * (x.n + 1))[: (x.length // x.n + 1) * x.n])),
    ("each rank fills up its own part, with the beginning of that: continue the order itself, "
     "before you deal it out.", lambda x: (x.in_turns(x.order) * x.each)[: x.each]),
]  # fmt: skip


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


def in_a_list(answer):
    """What can be gone through once alone is told by its kind."""

    def samples(*call):
        found = answer(*call)
        return f"a {type(found).__name__}" if isinstance(found, Iterator) else found

    return samples


def generators(answer) -> tuple:
    """Where the answer is: the states of the global generators."""
    return torch.get_rng_state(), random.getstate()


class Untouching(Formula):
    """A formula that leaves the global generators of random numbers as they were."""

    def examine(self, answer):
        before, others = torch.get_rng_state(), random.getstate()
        given = there(generators, answer)
        try:
            yield from super().examine(in_a_list(answer))
            if not alike(there(generators, answer), given):
                raise Wrong(
                    "afterwards", "the samples are right, but the global generator is not as it "
                    "was", f"{SEED}. "
                    "torch.Generator().manual_seed(…) is one of its own.",
                )  # fmt: skip
        finally:
            torch.set_rng_state(before)
            random.setstate(others)


EXERCISE = Untouching(
    "3.4",
    "samples_of_rank",
    lab="data_parallel",
    cases=CASES,
    truth=read_by_sampler,
    mistakes=[
        (sentence, lambda *call, read=read: read(Given(*call))) for sentence, read in MISTAKES
    ],
    told=lambda calls, values: f"{len(values[0])} each, as DistributedSampler",
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

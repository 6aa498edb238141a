"""The right results, and the results of known mistakes."""

from dataclasses import dataclass

import torch
from torch.utils.data import DistributedSampler


def read_by_sampler(length, epoch, rank, n, seed=0) -> list[int]:
    sampler = DistributedSampler(range(length), n, rank, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


@dataclass(frozen=True)
class SamplerCall:
    """The arguments of a call, and the steps of which mistakes are made."""

    length: int
    epoch: int
    rank: int
    n: int
    seed: int = 0

    @property
    def each(self) -> int:
        return -(-self.length // self.n)

    @property
    def padding_count(self) -> int:
        return self.n * self.each - self.length

    @property
    def straight(self) -> list[int]:
        return list(range(self.length))

    @property
    def order(self) -> list[int]:
        return self.shuffle(self.seed + self.epoch)

    def shuffle(self, seed, length=None) -> list[int]:
        source = torch.Generator().manual_seed(seed)
        return torch.randperm(length or self.length, generator=source).tolist()

    def pad_order(self, order) -> list[int]:
        return (order * self.n * self.each)[: self.n * self.each]

    def take_every_nth(self, order) -> list[int]:
        return order[self.rank :: self.n]

    def deal_order(self, order) -> list[int]:
        return self.take_every_nth(self.pad_order(order))

    def block(self, order) -> list[int]:
        return self.pad_order(order)[self.rank * self.each :][: self.each]


def shuffle_later(x) -> list[int]:
    part = x.deal_order(x.straight)
    return [part[i] for i in x.shuffle(x.seed + x.epoch, len(part))]


OWN_ORDER = (
    "each rank shuffles in an order of its own: then some samples are read by several ranks, "
    "and others by nobody. The seed has to be the same on all ranks"
)

REPEAT = "the order is to be continued with its own beginning"

MISTAKES = [  # (misconception, samples that a rank then reads, from a SamplerCall)
    ("nothing is shuffled.", lambda x: x.deal_order(x.straight)),
    ("nothing is shuffled, and a rank gets a block instead of every n-th sample.",
     lambda x: x.block(x.straight)),
    ("a rank reads every n-th sample of the order; you take a block of it.",
     lambda x: x.block(x.order)),
    (f"{OWN_ORDER}.", lambda x: x.deal_order(x.shuffle(x.seed + x.epoch + x.rank))),
    (f"{OWN_ORDER}, and differ in each epoch.", lambda x: x.deal_order(x.shuffle(x.seed + x.rank))),
    (f"{OWN_ORDER}: seed + epoch.", lambda x: x.deal_order(x.shuffle(x.rank))),
    ("each epoch has the same order: seed the generator with seed + epoch.",
     lambda x: x.deal_order(x.shuffle(x.seed))),
    ("seed is ignored: seed the generator with seed + epoch.",
     lambda x: x.deal_order(x.shuffle(x.epoch))),
    ("the seed is seed * epoch; it should be the sum.",
     lambda x: x.deal_order(x.shuffle(x.seed * x.epoch))),
    ("first all samples are shuffled, and then dealt out; you deal out first, and shuffle what "
     "each rank got: a rank would read the same samples in every epoch.", shuffle_later),
    ("these are the right samples of each rank, but sorted: keep the order.",
     lambda x: sorted(x.deal_order(x.order))),
    ("every rank reads everything: take every n-th, beginning with the rank's own number.",
     lambda x: x.order),
    ("some ranks read one sample less than others: continue the order with its own beginning, "
     "before you deal it out.", lambda x: x.take_every_nth(x.order)),
    ("what is left over is dropped, so some samples are never read: continue the order with its "
     "own beginning instead.", lambda x: x.take_every_nth(x.order[: x.length // x.n * x.n])),
    ("its beginning is too short to fill what is missing: repeat it as often as is needed.",
     lambda x: x.take_every_nth(x.order + x.order[: x.padding_count])),
    (f"{REPEAT}; you continue it with its end.",
     lambda x: x.take_every_nth(x.order + x.order[x.length - x.padding_count :])),
    (f"{REPEAT}; you repeat its last sample.",
     lambda x: x.take_every_nth(x.order + x.order[-1:] * x.padding_count)),
    (f"{REPEAT}; you repeat its first sample.",
     lambda x: x.take_every_nth(x.order + x.order[:1] * x.padding_count)),
    (f"{REPEAT}; you add samples 0, 1, … of the data.",
     lambda x: x.take_every_nth(x.order + x.straight[: x.padding_count])),
    (f"{REPEAT}; you continue it backwards.",
     lambda x: x.take_every_nth(x.order + x.order[::-1][: x.padding_count])),
    ("a whole round too many: if length is a multiple of n, nothing is missing.",
     lambda x: x.take_every_nth((x.order * (x.n + 1))[: (x.length // x.n + 1) * x.n])),
    ("each rank fills up its own part, with the beginning of that: continue the order itself, "
     "before you deal it out.", lambda x: (x.take_every_nth(x.order) * x.each)[: x.each]),
]  # fmt: skip

ALL_MISTAKES = [
    (sentence, lambda *call, read=read: read(SamplerCall(*call))) for sentence, read in MISTAKES
]

"""The right results, and the results of known mistakes."""

from dataclasses import dataclass
from itertools import chain

import torch

from .cases import STEPS, Steps


@dataclass(frozen=True)
class Reader:
    """The arguments of a call, from which the truth and the mistakes are made."""

    position: int
    length: int
    batch: int
    rank: int
    n: int
    seed: int = 0

    def order(self, epoch, seed=None) -> list[int]:
        source = torch.Generator().manual_seed((self.seed if seed is None else seed) + epoch)
        return torch.randperm(self.length, generator=source).tolist()

    def stream(self, order=None, first=0) -> list[tuple[int, int]]:
        """Return more (epoch, sample) than any step needs, from epoch `first` on."""
        order = order or self.order
        enough = 2 * self.position + 4 * STEPS * self.batch
        epochs = range(first, first + 2 + enough // self.length)
        return [(epoch, sample) for epoch in epochs for sample in order(epoch)]

    def cut(self, stream, start=None, step=None) -> list[list[tuple[int, int]]]:
        """Return this rank's lists when a stream is cut into batches, from a place on."""
        start, step = self.position if start is None else start, step or self.batch
        batches = (stream[start + k * step :][: self.batch] for k in range(STEPS))
        return [batch[self.rank :: self.n] for batch in batches]


def truth(*call):
    reader = Reader(*call)
    return Steps(reader.cut(reader.stream()))


def block(x):
    each = -(-x.batch // x.n)
    batches = (x.stream()[x.position + k * x.batch :][: x.batch] for k in range(STEPS))
    return [batch[x.rank * each : (x.rank + 1) * each] for batch in batches]


def drop_the_rest(x):
    """Read whole batches of each epoch alone, and leave out what is left over."""
    whole = x.length // x.batch * x.batch
    epochs = range(2 + (x.position + 9 * x.batch) // x.length)
    kept = chain.from_iterable([(e, s) for s in x.order(e)[:whole]] for e in epochs)
    return x.cut(list(kept))


def wrap_around(x):
    """Read from an epoch's beginning again, as if nothing followed it."""
    epoch, start = divmod(x.position, x.length)
    stream = [(epoch, sample) for sample in x.order(epoch)] * (9 + 9 * x.batch // x.length)
    return x.cut(stream, start)


def nth_after_nth(x):
    """Count the position for this rank alone."""
    mine = x.stream()[x.rank :: x.n]
    each = len(range(x.rank, x.batch, x.n))
    return [mine[x.position + k * each :][:each] for k in range(STEPS)]


def whole_batch_each(x):
    starts = (x.position + x.rank + k * x.batch * x.n for k in range(STEPS))
    return [x.stream()[start :: x.n][: x.batch] for start in starts]


MISTAKES = [
    ("the position is ignored: it says how many samples of the stream have been used before, so "
     "the first step begins there.", lambda x: x.cut(x.stream(), 0)),
    ("the first step begins with the epoch of the position, and not with the position: samples "
     "are read twice.", lambda x: x.cut(x.stream(), x.position // x.length * x.length)),
    ("every epoch has the order of epoch 0: ask order_of for the epoch of each sample.",
     lambda x: x.cut(x.stream(lambda epoch: x.order(0)))),
    ("the epochs are counted from 0 again, while the position goes on: which epoch a sample "
     "belongs to follows from its place in the stream.",
     lambda x: x.cut(x.stream(), x.position % x.length)),
    ("when the epoch ends, its own beginning is read again: the next epoch follows, in its own "
     "order.", wrap_around),
    ("what is left over at the end of an epoch is left out: a step that begins there goes on with "
     "the next epoch.", drop_the_rest),
    ("a rank has a block of the step's samples: it takes every n-th of them, so that the same "
     "samples make a step on any number of ranks.", block),
    ("each rank has all samples of a step: it takes every n-th, beginning with the one that has "
     "its own number.",
     lambda x: [x.stream()[x.position + k * x.batch :][: x.batch] for k in range(STEPS)]),
    ("each rank takes `batch` samples of its own in a step: `batch` counts those of all ranks "
     "together.", whole_batch_each),
    ("the position is counted as if it belonged to this rank: it counts the samples of all ranks.",
     nth_after_nth),
    ("each step is the same: the position grows by `batch` with each of them.",
     lambda x: [x.stream()[x.position :][: x.batch][x.rank :: x.n]] * STEPS),
    ("a step begins one sample after the last one did: the position grows by `batch`.",
     lambda x: x.cut(x.stream(), step=1)),
    ("the seed is not used: order_of(epoch, length, seed).",
     lambda x: x.cut(x.stream(lambda epoch: x.order(epoch, 0)))),
    ("the samples are their places in the epoch, unshuffled: order_of says which sample is at a "
     "place.", lambda x: x.cut(x.stream(lambda epoch: range(x.length)))),
    ("the pairs are the other way round: (epoch, sample).",
     lambda x: [[pair[::-1] for pair in batch] for batch in truth(*astuple(x))]),
]  # fmt: skip


def astuple(x) -> tuple:
    return x.position, x.length, x.batch, x.rank, x.n, x.seed


ALL_MISTAKES = [
    (sentence, lambda *call, read=read: Steps(read(Reader(*call)))) for sentence, read in MISTAKES
]

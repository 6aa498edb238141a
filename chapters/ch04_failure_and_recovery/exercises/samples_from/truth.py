"""The right results, and the results of known mistakes."""

from dataclasses import dataclass
from itertools import chain, groupby

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
    return [batch[x.rank * each : (x.rank + 1) * each] for batch in batches_of(x)]


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


def end_with_epochs(x):
    """Cut a step short where its epoch ends."""
    found, position = [], x.position
    for _ in range(STEPS):
        epoch, k = divmod(position, x.length)
        samples = x.order(epoch)[k : k + x.batch]
        found.append([(epoch, sample) for sample in samples][x.rank :: x.n])
        position += len(samples)
    return found


def batches_of(x):
    return [x.stream()[x.position + k * x.batch :][: x.batch] for k in range(STEPS)]


def in_two_epochs(x):
    """Leave out what belongs to a step's third epoch, or to a later one."""
    kept = ([p for p in batch if p[0] <= batch[0][0] + 1] for batch in batches_of(x))
    return [batch[x.rank :: x.n] for batch in kept]


def deal_each_epoch(x):
    """Begin with rank 0 again where an epoch begins in the middle of a step."""
    parts = ([list(part) for _, part in groupby(batch, lambda pair: pair[0])]
             for batch in batches_of(x))  # fmt: skip
    return [list(chain.from_iterable(part[x.rank :: x.n] for part in some)) for some in parts]


def by_place(x):
    """Deal out the stream, whatever place a step begins at."""
    starts = range(x.position, x.position + STEPS * x.batch, x.batch)
    return [[pair for place, pair in enumerate(batch, start) if place % x.n == x.rank]
            for start, batch in zip(starts, batches_of(x))]  # fmt: skip


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
    ("a step that meets the end of its epoch is too short: the next epoch follows in the same "
     "step.", end_with_epochs),
    ("a step reads from at most two epochs here: if epochs are short, it needs more of them.",
     in_two_epochs),
    ("rank 0 takes the first sample of an epoch even in the middle of a step: ranks take turns "
     "through the whole step.", deal_each_epoch),
    ("ranks take turns through the stream: in each step the first sample belongs to rank 0, even "
     "if `batch` is no multiple of n.", by_place),
    ("each rank has batch // n samples: what is left over of a step belongs to the first ranks.",
     lambda x: [part[: x.batch // x.n] for part in truth(*astuple(x))]),
    ("a step begins in the middle of the one before if `batch` is no multiple of n: all `batch` "
     "samples have been used.", lambda x: x.cut(x.stream(), step=x.batch // x.n * x.n)),
    ("the first step begins one place too late: `position` samples have been used, and the first "
     "of them was at place 0.", lambda x: x.cut(x.stream(), x.position + 1)),
    ("one list is emptied and filled again, which changes the lists that were given before: make a "
     "new one for each step.", lambda x: [x.cut(x.stream())[-1]] * STEPS),
    ("a rank has a block of the step's samples: it takes every n-th of them, so that the same "
     "samples make a step on any number of ranks.", block),
    ("each rank has all samples of a step: it takes every n-th, beginning with the one that has "
     "its own number.", batches_of),
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

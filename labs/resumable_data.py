# Built from chapters/ch04_failure_and_recovery/labs/resumable_data.py by `make build`. Write your answers here.
"""A data loader that resumes in mid-epoch, sample for sample, on any number of ranks.

torchrun --nproc-per-node 2 labs/resumable_data.py
"""

import functools
import signal

import torch
import torch.distributed as dist
from checkpoints import shift_by
from gradient_accumulation import digits
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

# ---- The order of the samples ---------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def order_of(epoch, length, seed=0) -> tuple[int, ...]:
    """Return the order in which an epoch reads the samples 0 to length - 1, on all ranks alike."""
    chance = torch.Generator("cpu").manual_seed(seed + epoch)
    return tuple(torch.randperm(length, generator=chance).tolist())


def samples_from(position, length, batch, rank, n, seed=0):
    """Exercise 4.20. Yield the samples of one rank, a list for each step, without end.

    All ranks read one stream: epoch 0 in the order `order_of(0, length, seed)`, then epoch 1, and
    so on. A step reads the next `batch` samples of the stream, even if they belong to two epochs.
    Of these, the rank takes every n-th, from the one with its own number on.

    position  samples of the stream, counted over all ranks, that earlier steps have used
    length    samples in an epoch
    batch     samples in a step, over all ranks: at least n
    rank, n   this rank, and the number of ranks
    Yields    for each step, a new list of (epoch, sample), each of them two ints
    """
    ...  # your code here


# ---- The loader -----------------------------------------------------------------------------


class ResumableLoader:
    """A loader with worker processes whose state is the position of the training.

    The workers read ahead, and the position counts only the batches that they have handed out.
    `state_dict()` and `load_state_dict()` are those of torchdata's StatefulDataLoader, except that
    any number of ranks can load the state. Iterating begins at the position and never ends.

    dataset   its items have the keys (epoch, sample)
    batch     samples in a step, over all ranks: at least n
    workers   processes that read for this rank; 0: the rank reads by itself
    prefetch  batches that each worker reads ahead
    """

    def __init__(self, dataset, batch, rank=0, n=1, workers=2, prefetch=2, seed=0):
        self.dataset, self.batch, self.rank, self.n = dataset, batch, rank, n
        self.workers, self.prefetch, self.seed = workers, prefetch, seed
        self.position = 0  # in the stream: samples that the training has used, over all ranks

    def __iter__(self):
        share = self.batch, self.rank, self.n, self.seed
        drawn = samples_from(self.position, len(self.dataset), *share)
        for samples in read_ahead(self.dataset, drawn, self.workers, self.prefetch):
            self.position += self.batch
            yield samples

    def state_dict(self) -> dict:
        return {"position": self.position}

    def load_state_dict(self, state):
        """Set the position at which the next iteration begins."""
        self.position = state["position"]


def read_ahead(dataset, drawn, workers=2, prefetch=2, deaf=True) -> DataLoader:
    """Return PyTorch's DataLoader, whose workers read the lists of `drawn` ahead of the training.

    deaf  whether workers ignore SIGTERM, which torchrun sends to them, too
    """
    return DataLoader(
        dataset,
        batch_sampler=drawn,
        num_workers=workers,
        prefetch_factor=prefetch if workers else None,
        worker_init_fn=ignore_sigterm if deaf else None,
        generator=torch.Generator(),  # or each iteration draws a number from the global one
    )


def ignore_sigterm(worker=0):
    """Let a worker live on when all are told to stop: the rank ends it when it has finished."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


# ---- Datasets -------------------------------------------------------------------------------


class Keys(Dataset):
    """A dataset whose items are their own keys, to see who reads what."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, key) -> Tensor:
        return torch.tensor(key)


class ShiftedDigits(Dataset):
    """Handwritten digits, moved by a pixel at random, in float64: (image, label).

    careless  the draw comes from the generator that PyTorch gives to the worker, and not from the
              epoch and the sample
    """

    def __init__(self, data=None, careless=False):
        images, self.labels, *_ = data or digits()
        self.images, self.careless = images.double(), careless

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, key) -> tuple[Tensor, Tensor]:
        epoch, sample = key
        chance = torch.Generator().manual_seed(epoch * len(self) + sample)
        if self.careless and get_worker_info():
            chance = torch.default_generator
        pixels = torch.randint(-1, 2, (), generator=chance).item()
        return shift_by(pixels, self.images[sample : sample + 1])[0], self.labels[sample]


# ---- The program ----------------------------------------------------------------------------


def program(length=50, batch=12, steps=3) -> tuple[list, int]:
    """Return the samples that all ranks read around a restart, in order, and the position there."""
    rank, n = dist.get_rank(), dist.get_world_size()
    loader, read = ResumableLoader(Keys(length), batch, rank, n), []
    state = loader.state_dict()
    for _ in range(2):  # two lives
        loader = ResumableLoader(Keys(length), batch, rank, n)
        loader.load_state_dict(state)
        read += [samples.tolist() for _, samples in zip(range(steps), loader)]
        state = loader.state_dict()
    every = [None] * n
    dist.all_gather_object(every, read)
    return [pair for step in zip(*every) for share in step for pair in share], state["position"]


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, world_size=2, device="cpu")
    if run.rank == 0:
        read, position = run.values[0]
        wanted = [divmod(place, 50) for place in range(position)]
        wanted = [(epoch, order_of(epoch, 50)[k]) for epoch, k in wanted]
        print(f"{len(read)} samples in two lives; each once: "
              f"{sorted(map(tuple, read)) == sorted(wanted)}")  # fmt: skip


if __name__ == "__main__":
    main()

"""Exercise 3.8, a program with bugs: who reads which samples, and when.

The truth is one process that takes the samples of all ranks.
"""

import itertools
from collections import Counter
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import Dataset

from ...basics.closeness import close, told_gap
from ...course.checking import Exercise, Wrong, try_on_ranks
from ..kit.answers import recognise
from ..kit.one_process import (
    HANGS,
    NO_EXCHANGE,
    RATE,
    batch_of,
    ends_of_wrong_loops,
    flat,
    model_of,
    need_replicas,
    train_alone,
    why_raised,
)
from ..kit.warming import warm_up

EPOCHS = 3
READ_ERRORS = {  # words of an error: what they mean here
    "local variable 'labels'": "`labels` is used before anything has given it a value. The loop "
    "gives one thing, `batch`: what does a DataLoader make of samples that are pairs?",
    "must be Tensor, not list": "`batch` is a list of two tensors, inputs and labels; a model "
    "takes the inputs",
    "mutually exclusive": "who shuffles? A DataLoader that is given a sampler reads in the "
    "sampler's order, so it is the sampler's task",
    "no attribute 'set_epoch'": "the one who draws the order has to know the epoch: that is the "
    "sampler, not the one that you tell it to",
}
UNEVEN = (
    "some ranks have a batch more than others, and wait in its backward for ranks that are done. "
    "All have to take equally many samples, also where their number is no multiple of the ranks: "
    "some samples are then read twice, or left out"
)
WHOLE = (
    "every rank goes through the whole dataset, so an epoch costs each rank as much as one process "
    "alone. A DataLoader knows nothing of ranks"
)
SAME_ORDER = " They even take the same samples at the same time: all ranks compute one gradient."
SAME_PART = "all ranks take the same part: which part it is has to depend on the rank"
LEFT_OUT = (
    "samples are left out, and more than equal shares make necessary. If the last batch of a rank "
    "is smaller, it belongs to the epoch all the same"
)
NO_AGREEMENT = (
    "the ranks do not agree on the order that they divide up: each shuffles for itself. One order "
    "for all needs one seed for all"
)
ONE_ORDER = (
    "the order is shuffled, and the same in each epoch: who draws it has to be told the number of "
    "the epoch"
)
NOT_SHUFFLED = "nothing shuffles: each epoch goes through the dataset from its beginning to its end"
TOO_LATE = (
    "epoch 1 repeats epoch 0, and then the order changes: the number of the epoch comes too late. "
    "An order is drawn when the loop over batches begins"
)
SIZES = "`samples` is what each rank takes in a step; over all ranks that is n times as many"
THROWN_AWAY = (
    "each rank reads the others' samples, too, and throws them away: it reads as much as one "
    "process alone"
)
UNMOVED = "the model that was given is as it was: train it, and no copy of it"


class Samples(Dataset):
    """A dataset that counts how many samples are read."""

    def __init__(self, length):
        self.inputs, self.labels = batch_of(0, 0, size=length)
        self.read = 0

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        labels = self.labels[index]
        self.read += labels.numel()
        return self.inputs[index], labels


class NotingLoss:
    """The mean squared error; notes which samples it is computed for."""

    def __init__(self, dataset):
        self.dataset, self.batches = dataset, []

    def __call__(self, outputs, labels):
        distances = labels.detach().reshape(-1, 1) - self.dataset.labels.view(1, -1)
        self.batches.append(distances.abs().argmin(1).tolist())
        return F.mse_loss(outputs, labels)


def try_reading(answer, length, samples):
    """On a rank: the samples of each step, how many were read, and the weights in the end."""
    model, dataset = model_of(dist.get_rank()), Samples(length)
    loss_fn = NotingLoss(dataset)
    answer(model, dataset, loss_fn, EPOCHS, samples)
    return loss_fn.batches, dataset.read, flat(model.parameters())


def joined(lists):
    return list(itertools.chain.from_iterable(lists))


@dataclass
class Reading:
    """What came of 3.8: for each rank the samples of each of its steps, and so on."""

    length: int
    samples: int
    batches: list[list[list[int]]]
    read: list[int]
    weights: list[torch.Tensor]

    @property
    def n(self) -> int:
        return len(self.batches)

    def epoch(self, number) -> list[list[list[int]]]:
        """For each rank, its batches in an epoch."""
        each = len(self.batches[0]) // EPOCHS
        return [batches[number * each : (number + 1) * each] for batches in self.batches]

    def order(self, number) -> list[list[int]]:
        """For each rank, its samples in an epoch."""
        return [joined(batches) for batches in self.epoch(number)]


def examine_reading(answer):
    warm_up()
    for n, length, samples in ((2, 24, 5), (3, 25, 4)):
        case = f"{n} ranks, {length} samples, {samples} at a time, {EPOCHS} epochs"
        explain = partial(why_raised, READ_ERRORS, UNEVEN if length % n else HANGS)
        run = try_on_ranks(case, try_reading, answer, length, samples, world_size=n,
                           explain=explain)  # fmt: skip
        trial = Reading(length, samples, *map(list, zip(*run.values)))
        for need in (need_equal_work, need_division, need_new_orders, need_sizes, need_reading,
                     need_union_weights):  # fmt: skip
            need(case, trial)
        taken = len(trial.order(0)[0])
        yield f"{case}: each rank takes {taken} in an epoch, and the weights are one process's"


def need_equal_work(case, trial):
    steps = [len(batches) for batches in trial.batches]
    if not all(steps):
        raise Wrong(case, f"no loss was computed on rank {steps.index(0)}", "is there a loop?")
    taken = [sum(map(len, batches)) for batches in trial.batches]
    if len(set(steps)) > 1 or len(set(taken)) > 1:
        what = f"steps of each rank: {steps}; samples that each has taken: {taken}"
        raise Wrong(case, what, UNEVEN)
    if steps[0] % EPOCHS or taken[0] * trial.n < 2 * trial.length:
        what = f"{steps[0]} steps and {taken[0]} samples on each rank in {EPOCHS} epochs"
        raise Wrong(case, what, "is the loop over batches run in each epoch, from its beginning?")


def need_division(case, trial):
    """Each sample on one rank, but for what makes the ranks' shares equal."""
    for epoch in range(EPOCHS):
        order = trial.order(epoch)
        times = Counter(i for taken in order for i in taken)
        off = sum(abs(times[i] - 1) for i in range(trial.length))
        if off > (trial.n - 1 if trial.length % trial.n else 0):
            by_ranks = [sum(i in set(taken) for taken in order) for i in range(trial.length)]
            what = f"epoch {epoch}: of {trial.length} samples, {told_readers(by_ranks)}"
            raise Wrong(case, what, why_division(order, trial))


def told_readers(by_ranks) -> str:
    """`12 are taken by 2 ranks and 12 are taken by nobody`."""
    words = {0: "nobody", 1: "one rank"}
    return " and ".join(
        f"{number} {'is' if number == 1 else 'are'} taken by {words.get(ranks, f'{ranks} ranks')}"
        for ranks, number in sorted(Counter(by_ranks).items(), reverse=True)
    )


def why_division(order, trial) -> str:
    sets = [set(taken) for taken in order]
    if any(len(s) < len(taken) for s, taken in zip(sets, order)):
        return "a rank takes the same sample several times in an epoch"
    if all(len(s) == trial.length for s in sets):
        return WHOLE + ("." + SAME_ORDER if order[0] == order[1] else "")
    if all(s == sets[0] for s in sets):
        return SAME_PART
    if len(set.union(*sets)) == sum(map(len, sets)):
        return LEFT_OUT
    return NO_AGREEMENT


def need_new_orders(case, trial):
    orders = [trial.order(epoch) for epoch in range(EPOCHS)]
    same = [(a, b) for b in range(EPOCHS) for a in range(b) if orders[a] == orders[b]]
    if not same:
        return
    what = " and ".join(f"epoch {b} has the order of epoch {a}" for a, b in same if a == same[0][0])
    if same == [(0, 1)]:
        raise Wrong(case, what, TOO_LATE)
    without_padding = [taken[: trial.length // trial.n] for taken in orders[0]]
    is_sorted = all(taken == sorted(taken) for taken in without_padding)
    raise Wrong(case, what, NOT_SHUFFLED if is_sorted else ONE_ORDER)


def need_sizes(case, trial):
    for rank, batches in enumerate(trial.epoch(0)):
        sizes = [len(batch) for batch in batches]
        full, rest = divmod(sum(sizes), trial.samples)
        wanted = [trial.samples] * full + [rest] * bool(rest)
        if sizes != wanted:
            what = f"rank {rank} takes {sizes} samples in the steps of an epoch, expected {wanted}"
            raise Wrong(case, what, SIZES)


def need_reading(case, trial):
    for rank, (read, batches) in enumerate(zip(trial.read, trial.batches)):
        trained = sum(map(len, batches))
        if read >= trial.n * trained:
            what = f"rank {rank} reads {read} samples, and trains on {trained}"
            raise Wrong(case, what, THROWN_AWAY)


def need_union_weights(case, trial):
    starts = [flat(model_of(rank).parameters()) for rank in range(trial.n)]
    if all(map(close, trial.weights, starts)):
        raise Wrong(case, "the weights are what they were", UNMOVED)
    need_replicas(case, trial.weights, NO_EXCHANGE)
    dataset = Samples(trial.length)
    batches = [dataset[joined(pieces)] for pieces in zip(*trial.batches)]
    wanted, got = train_alone(batches)[0][-1], trial.weights[0]
    if not close(got, wanted):
        guesses = ends_of_wrong_loops(batches, trial.n)
        what = f"the weights are off by up to {told_gap(got, wanted)} from one process's, lr {RATE}"
        raise Wrong(case, what, recognise(got, guesses))


EXERCISE = Exercise(
    "3.8", "train_epochs", examine_reading,
    (
        "Which name had no value, in which line? And what does a DataLoader make of samples "
        "that are pairs?",
        "Who tells a rank's DataLoader which samples are its own? A DistributedSampler knows "
        "the rank and the number of ranks. (The DataLoader then must not shuffle.)",
        "A DistributedSampler shuffles by its seed + the number of the epoch, and learns that "
        "number from sampler.set_epoch(epoch), before the loop over batches begins.",
    ),
)  # fmt: skip

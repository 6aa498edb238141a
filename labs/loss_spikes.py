# Built from chapters/ch04_failure_and_recovery/labs/loss_spikes.py by `make build`. Write your answers here.
"""Loss spikes: one decision for all ranks on whether a step is sane, and what to do if it is not.

torchrun --nproc-per-node 2 labs/loss_spikes.py
"""

import copy
import random
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from gradient_accumulation import digits
from resumable_data import samples_from
from torch import Tensor, nn

BATCH, RATE, MOMENTUM = 32, 0.5, 0.9  # samples in a step, over all ranks
AT_LEAST, WINDOW = 10, 50  # norms that a judgement needs, and norms that are kept
IN_A_ROW = 20  # steps in a row that are not sane: after these, training stops
ANSWERS = "go on", "clip", "skip", "roll back"


# ---- One decision for all ranks -------------------------------------------------------------


def sum_and_judge(flat: Tensor, norms: list[float], times=4.0, group=None) -> bool:
    """Exercise 4.22. Sum `flat` over the group, and judge whether the step is sane.

    It is sane if the norm of the sum is finite and at most `times` the median of `norms`. With
    fewer than AT_LEAST norms, finite is enough. The norm of a sane step is appended to `norms`. It
    is computed in float32 at least: 16 bits round it, and in float16 it would be infinite over
    65,504.

    flat    this rank's gradients in one dimension; overwritten with the sum
    norms   of earlier sane steps, the same on all ranks
    Cost    one all-reduce of `flat`
    """
    ...  # your code here


# ---- A training run on a stream of samples --------------------------------------------------


class Spoilt(NamedTuple):
    """A part of the stream whose samples are wrong.

    what         "pixels": from 0 to 16 instead of 0 to 1, as before scaling; "labels": each is that
                 of the next digit; "a few labels": only about a quarter of them, drawn by their
                 places; "NaN": one pixel is NaN
    first, last  places in the stream, counted over all ranks; `last` is no longer part of it
    """

    what: str
    first: int
    last: int

    def spoil(self, places, images, labels):
        """Spoil, in place, the rows of a batch whose places are in this part of the stream."""
        rows = [row for row, place in enumerate(places) if self.contains(place)]
        if self.what == "pixels":
            images[rows] *= 16
        elif self.what == "NaN":
            images[rows, 28] = torch.nan
        else:
            labels[rows] = (labels[rows] + 1) % 10

    def contains(self, place) -> bool:
        """Return whether the sample at a place is wrong, on however many ranks."""
        is_drawn = self.what != "a few labels" or random.Random(place).random() < 0.25
        return self.first <= place < self.last and is_drawn


class Training:
    """Data parallelism by hand, with momentum, in float64, from a position in a stream on.

    position  samples of the stream, over all ranks, that lie behind; it moves on with each step
    norms     of the gradients of the last sane steps
    spoilt    which part of the stream is wrong, if any
    """

    def __init__(self, data=None, seed=0, spoilt=None, group=None):
        self.rank, self.n = dist.get_rank(group), dist.get_world_size(group)
        self.group, self.seed, self.spoilt = group, seed, spoilt
        images, self.labels, self.test_images, self.test_labels = data or digits()
        self.images, self.test_images = images.double(), self.test_images.double()
        with torch.random.fork_rng():
            torch.manual_seed(seed)  # the same on all ranks
            layers = nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
            self.model = nn.Sequential(*layers).double()
        self.parameters = list(self.model.parameters())
        self.momenta = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.position, self.norms = 0, []

    def samples_of(self, rank) -> tuple[Tensor, Tensor]:
        """Return the images and labels of a rank's share of this step."""
        of_rank = samples_from(self.position, len(self.labels), BATCH, rank, self.n, self.seed)
        places = range(self.position + rank, self.position + BATCH, self.n)
        keys = [sample for _, sample in next(of_rank)]
        images, labels = self.images[keys], self.labels[keys]
        if self.spoilt:
            self.spoilt.spoil(places, images, labels)
        return images, labels

    def gradient_of(self, rank) -> Tensor:
        """Compute, in this process, the flat gradient of a rank's share of this step."""
        images, labels = self.samples_of(rank)
        loss = F.cross_entropy(self.model(images), labels, reduction="sum") / BATCH
        gradients = torch.autograd.grad(loss, self.parameters)
        return torch.cat([gradient.flatten() for gradient in gradients])

    @torch.no_grad()
    def update(self, flat):
        """Take a step with the sum over all ranks, and move on."""
        sizes = [parameter.numel() for parameter in self.parameters]
        for parameter, momentum, part in zip(self.parameters, self.momenta, flat.split(sizes)):
            momentum.mul_(MOMENTUM).add_(part.view_as(parameter))
            parameter.sub_(RATE * (1 - MOMENTUM) * momentum)
        self.move_on()

    def move_on(self):
        self.position += BATCH
        del self.norms[:-WINDOW]

    @torch.no_grad()
    def test_loss(self) -> float:
        return F.cross_entropy(self.model(self.test_images), self.test_labels).item()

    def weights(self) -> Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.parameters])

    def state_dict(self) -> dict:
        """Return a copy of all that the next steps depend on, the norms included."""
        return copy.deepcopy({
            "model": self.model.state_dict(), "momenta": self.momenta,
            "position": self.position, "norms": self.norms,
        })  # fmt: skip

    @torch.no_grad()
    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        for momentum, saved in zip(self.momenta, state["momenta"]):
            momentum.copy_(saved)
        self.position, self.norms = state["position"], list(state["norms"])


# ---- Four answers to a spike ----------------------------------------------------------------


@dataclass
class Record:
    """What came of a training run, the same on all ranks. Steps are counted along the stream.

    losses    {step: the test loss when this step lies behind}
    ratios    {step: the norm of its gradient as a multiple of the median before}
    alarms    the steps that were not sane
    unused    (first, last) places of the stream on which the weights do not depend
    computed  how many steps were computed, in vain or not
    weights   at the end
    """

    losses: dict[int, float] = field(default_factory=dict)
    ratios: dict[int, float] = field(default_factory=dict)
    alarms: list[int] = field(default_factory=list)
    unused: list[tuple[int, int]] = field(default_factory=list)
    computed: int = 0
    weights: Tensor | None = None


def train(answer, steps=150, spoilt=None, unused=(), data=None, seed=0, every=20, before=5,
          beyond=15, times=3.0, group=None) -> Record:  # fmt: skip
    """Train up to so many steps of the stream, with one answer to each step that is not sane.

    "go on" takes the step; "skip" leaves it out; "roll back" loads a checkpoint, and moves on
    behind this step and `beyond` more steps of the stream. "clip" takes all steps, each with its
    gradient scaled down to the usual norm if it is larger, as clip_grad_norm_ does.

    unused  (first, last) places of the stream to jump over, as if they did not exist
    every   steps of the stream from one checkpoint to the next; two are kept
    before  how many steps older than the alarm a checkpoint must be to be loaded: at most `every`
    Raises  RuntimeError on all ranks, if IN_A_ROW steps in a row were left out
    """
    training, record, jumps = Training(data, seed, spoilt, group), Record(), dict(sorted(unused))
    saved, in_a_row = [training.state_dict()], 0
    while training.position < steps * BATCH:
        if training.position in jumps:
            training.position = jumps[training.position]
            continue
        step, usual = training.position // BATCH, median(training.norms or [torch.nan])
        if step % every == 0:
            saved = [*saved, training.state_dict()][-2:]
        flat = training.gradient_of(training.rank)
        is_sane = sum_and_judge(flat, training.norms, times, group)
        norm = flat.norm().item()
        record.ratios[step] = norm / usual
        record.computed += 1
        record.alarms += [] if is_sane else [step]
        in_a_row = 0 if is_sane else in_a_row + 1
        if is_sane or answer in ("go on", "clip"):
            training.update(flat * (usual / norm) if answer == "clip" and norm > usual else flat)
        else:
            need_progress(in_a_row)
            record.unused.append(leave_out(training, answer, saved, before, beyond))
        record.losses[training.position // BATCH] = training.test_loss()
    record.weights = training.weights()
    return record


def need_progress(in_a_row):
    if in_a_row == IN_A_ROW:
        raise RuntimeError(f"{in_a_row} steps in a row were not sane: no step is taken any more")


def leave_out(training, answer, saved, before, beyond) -> tuple[int, int]:
    """Skip a step or roll back; return the places that the weights no longer depend on.

    saved  states, the oldest first; those that are too new are removed
    """
    position = training.position
    if answer == "skip":
        training.move_on()
        return position, training.position
    while len(saved) > 1 and saved[-1]["position"] > position - before * BATCH:
        saved.pop()  # it may have bad data in it
    training.load_state_dict(saved[-1])
    training.position = position + (1 + beyond) * BATCH
    return saved[-1]["position"], training.position


# ---- The program ----------------------------------------------------------------------------


def try_answers(data=None) -> dict[str, Record]:
    spoilt = Spoilt("labels", 85 * BATCH, 95 * BATCH)
    return {answer: train(answer, spoilt=spoilt, data=data) for answer in ANSWERS}


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(try_answers, digits(), world_size=2, device="cpu")
    if run.rank == 0:
        for answer, record in run.values[0].items():
            highest = max(loss for step, loss in record.losses.items() if step > 85)
            print(f"{answer}: highest loss {highest:.2f}, alarms {len(record.alarms)}, "
                  f"steps computed {record.computed}")  # fmt: skip


if __name__ == "__main__":
    main()

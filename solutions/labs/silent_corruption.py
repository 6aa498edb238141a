# Built from chapters/ch04_failure_and_recovery/labs/silent_corruption.py by `make build`.
"""Silent data corruption: faults that only some checks find, and how far to roll back afterwards.

torchrun --nproc-per-node 4 labs/silent_corruption.py
"""

import functools
import os
import random
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from finding_out import checksum, differing_replicas, flip_a_bit, wrong_by_recomputing
from gradient_accumulation import digits
from loss_spikes import BATCH, Spoilt, Training, sum_and_judge
from torch import Tensor

FAULTS = "loud", "weight", "gradient", "message", "a few labels", "software"
CHECKS = "norm of the sum", "replicas", "replay", "messages"


# ---- Faults ---------------------------------------------------------------------------------


class Fault(NamedTuple):
    """A fault: its kind, its rank, how many steps precede it, and how often it shows.

    what  "loud": once, one gradient has a wrong bit in its exponent
          "weight": once, one weight has a wrong bit in its fraction
          "gradient": from now on, the rank's gradients are in the wrong order, in each step or in
                      a share of the steps, `shows`
          "message": once, a number has a wrong bit when the rank receives it in the all-reduce
          "a few labels": for ten steps, about a quarter of the labels are wrong, on all ranks
          "software": from now on, all ranks compute no gradient for the last layer's bias
    """

    what: str
    rank: int
    after: int
    shows: float = 1.0


class FaultyTraining(Training):
    """A training run with a fault. `gradients` counts those that this rank has computed."""

    def __init__(self, fault=None, data=None, seed=0, group=None):
        first = fault.after * BATCH if fault else 0
        few = fault and fault.what == "a few labels"
        spoilt = Spoilt("a few labels", first, first + 10 * BATCH) if few else None
        super().__init__(data, seed, spoilt, group)
        self.fault, self.gradients = fault, 0

    @property
    def steps(self) -> int:
        return self.position // BATCH

    def has(self, what, once=True) -> bool:
        """Return whether this rank has this fault in this step."""
        if not self.fault or self.fault.what != what or self.fault.rank != self.rank:
            return False
        return self.steps == self.fault.after or (not once and self.steps > self.fault.after)

    def shows(self) -> bool:
        """Return whether a fault that comes and goes shows in this step."""
        return random.Random(1000 * self.fault.after + self.steps).random() < self.fault.shows

    def gradient_of(self, rank) -> Tensor:
        flat, self.gradients = super().gradient_of(rank), self.gradients + 1
        if self.has("gradient", once=False) and self.shows():
            return flat.flip(0)
        if self.has("loud"):
            flip_bit(flat, -5, 62)
        if self.fault and self.fault.what == "software" and self.steps >= self.fault.after:
            flat[-10:] = 0
        return flat

    def damage(self, call, messages):
        """Flip a bit in what this rank has received from the next one, if it has this fault."""
        if call == "all-to-all" and self.has("message"):
            flip_bit(messages[(self.rank + 1) % self.n].view(torch.float64), 20, 51)

    def update(self, flat):
        has_wrong_weight = self.has("weight")
        super().update(flat)
        if has_wrong_weight:
            flip_a_bit(self.model[0].weight, bit=51)


def flip_bit(numbers, place, bit):
    numbers.view(torch.int64)[place] ^= 1 << bit


# ---- Messages with checksums ----------------------------------------------------------------


def sum_with_checksums(flat, group=None, damage=lambda *_: None) -> list[tuple[int, int]]:
    """Sum `flat` over the group in place; return, on all ranks alike, which messages were damaged.

    Each rank adds up one part of `flat`, whose pieces arrive in an all-to-all, and an all-gather
    passes the sums on. Each message carries a checksum of 8 bytes, which its receiver computes
    again. An all-reduce of n × n numbers then tells all ranks which ones did not agree.

    damage   called on the arrival of messages: with "all-to-all" or "all-gather", and with their
             bytes, one row from each rank
    Returns  (from, to) for each damaged message
    Equals   dist.all_reduce(flat), up to rounding
    """
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    parts = F.pad(flat, (0, -len(flat) % n)).view(n, -1)
    received = torch.empty_like(seal(parts))
    dist.all_to_all_single(received, seal(parts), group=group)
    damage("all-to-all", received[:, :-8])
    parts, is_damaged = unseal(received, flat.dtype)
    found = torch.zeros(n, n, dtype=torch.int64)
    found[:, rank] += is_damaged
    gathered = list(torch.empty_like(received).split(1))
    dist.all_gather(gathered, seal(parts.sum(0, keepdim=True, dtype=flat.dtype)), group)
    gathered = torch.cat(gathered)
    damage("all-gather", gathered[:, :-8])
    sums, is_damaged = unseal(gathered, flat.dtype)
    found[:, rank] += is_damaged
    dist.all_reduce(found, group=group)
    flat.copy_(sums.flatten()[: len(flat)])
    return [tuple(pair) for pair in found.nonzero().tolist()]


def seal(rows) -> Tensor:
    """Return the bytes of each row, with 8 bytes more: the checksum of the row."""
    sums = torch.tensor([[checksum([row])] for row in rows])
    return torch.cat([rows.contiguous().view(torch.uint8), sums.view(torch.uint8)], dim=1)


def unseal(messages, dtype) -> tuple[Tensor, Tensor]:
    """Return the rows of sealed messages, and for each whether it differs from its checksum."""
    rows, seals = (part.flatten().clone() for part in messages.split([messages.shape[1] - 8, 8], 1))
    rows = rows.view(dtype).view(len(messages), -1)
    sums = torch.tensor([checksum([row]) for row in rows])
    return rows, (sums != seals.view(torch.int64)).long()


# ---- Which check finds which fault ----------------------------------------------------------


def watch(fault, steps=32, data=None, group=None) -> dict[str, tuple[int, list]]:
    """Train with all checks in every step, and only leave out the steps that are not sane.

    Replays need three ranks, so that with two there are none.

    Returns  for each check that finds anything: the first step, and whom it names
    """
    training, found = FaultyTraining(fault, data, group=group), {}
    rank, n = training.rank, training.n
    for step in range(steps):
        gradient_of = functools.cache(training.gradient_of)
        flat, wrong = gradient_of(rank).clone(), None
        if n > 2:
            wrong = wrong_by_recomputing(lambda k, of=gradient_of: [of(k)], group)
        damaged = sum_with_checksums(flat, group, training.damage)
        is_sane = sum_and_judge(flat / n, training.norms, group=group)  # all ranks have the sum
        training.update(flat) if is_sane else training.move_on()
        differing = differing_replicas(training.model, group)
        named = [] if is_sane else ["a spike"], differing, [] if wrong is None else [wrong], damaged
        for check, names in zip(CHECKS, named):
            if names:
                found.setdefault(check, (step, names))
    return found


# ---- How far to roll back -------------------------------------------------------------------


def clean_checkpoint(saved: list[int], every: int, found: int) -> int:
    """Exercise 4.23. Return the newest checkpoint from before the last good check.

    A check is made after 0, `every`, 2 · `every`, … steps. The one after `found` steps is the first
    that fails. The fault shows in every step from its first one on, so that it came after the check
    before this one, and what was saved until then is clean.

    saved  the steps after which a checkpoint was saved, in any order; at least one is old enough
    """
    ### BEGIN SOLUTION
    return max(step for step in saved if step <= found - every)
    ### END SOLUTION


class Outcome(NamedTuple):
    """What came of a training run, the same on all ranks except for `gradients`.

    found      the rank that a replay named, None if none did
    at, back   after how many steps the check was that named it, and the checkpoint was saved
    gradients  that this rank has computed
    """

    weights: Tensor
    found: int | None
    at: int | None
    back: int | None
    gradients: int


def train_and_replay(fault=None, every=10, save_every=10, steps=70, choose=clean_checkpoint,
                     data=None, group=None) -> Outcome:  # fmt: skip
    """Train; in every so many steps, each rank also computes the next rank's gradient.

    This is the check after that step: if it passes, the gradient of the step was right.
    When a rank is named, another takes its place, which means here that the fault is gone. All
    ranks load the checkpoint that `choose` returns, and take the steps since then again.
    """
    training, saved = FaultyTraining(fault, data, group=group), {}
    found = at = back = None
    while training.steps < steps:
        if training.steps % save_every == 0:
            saved[training.steps] = training.state_dict()
        gradient_of = functools.cache(training.gradient_of)
        if (training.steps + 1) % every == 0:
            found_now = wrong_by_recomputing(lambda k, of=gradient_of: [of(k)], group)
            if found_now is not None:
                found, at, training.fault = found_now, training.steps + 1, None
                back = choose(list(saved), every, at)
                training.load_state_dict(saved[back])
                continue
        flat = gradient_of(training.rank).clone()
        dist.all_reduce(flat, group=group)
        training.update(flat)
    return Outcome(training.weights(), found, at, back, training.gradients)


def predict_overhead(every, save_every, steps_per_fault) -> float:
    """Return the computation that is spent on replays and lost steps, in steps for each step.

    every, save_every  steps from one replay to the next, and from one checkpoint to the next
    steps_per_fault    steps from one fault to the next, on average
    """
    return 1 / every + (every + save_every / 2) / steps_per_fault


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    n = int(os.environ.get("WORLD_SIZE", "4"))
    for what in FAULTS:
        run = launch(watch, Fault(what, n - 1, 24), 32, digits(), world_size=n, device="cpu")
        if run.rank == 0:
            told = [f"{check} in step {step}" for check, (step, _) in run.values[0].items()]
            print(f"{what}: {', '.join(told) or 'nothing finds it'}")


if __name__ == "__main__":
    main()

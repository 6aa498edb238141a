"""What tests of crews share: ranks that die at a certain point, once or again."""

import os
import signal
from typing import NamedTuple

import torch
import torch.distributed as dist


class Fault(NamedTuple):
    """What happens to a rank.

    where   "before", "in", or "after" the all-reduce of a step, "updated" after the step; at a
            "meeting"; "agreed" when its list is there; "over" when all steps are taken
    number  of the step, or of the meeting, from 0
    life    0: to the first process of this rank; 1: to the one that takes its place
    """

    rank: int
    where: str
    number: int = 0
    life: int = 0
    signal: int = signal.SIGKILL

    def strike(self):
        os.kill(os.getpid(), self.signal)


def data():
    chance = torch.Generator().manual_seed(0)
    images = torch.rand(320, 64, generator=chance)
    return images, torch.randint(10, (320,), generator=chance)


def own_faults(faults) -> list[Fault]:
    me = int(os.environ["RANK"]), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    return [fault for fault in faults if (fault.rank, fault.life) == me]


def put_in(faults, training, crew) -> dict:
    """Have faults happen. Returns the steps and how many meetings have begun, which fills up."""
    begun = {"compute": [], "meeting": 0, "agreed": 0}

    def strike(where, number):
        for fault in faults:
            if (fault.where, fault.number) == (where, number):
                fault.strike()

    put_in_steps(training, begun["compute"], strike)
    crew.meet = count_calls(begun, "meeting", crew.meet, strike)
    crew.form_group = count_calls(begun, "agreed", crew.form_group, strike)
    crew.all_is_done = strike_at_end(crew.all_is_done, strike)
    put_in_calls(faults, training, strike)
    return begun


def strike_at_end(all_is_done, strike):
    def call():
        is_done = all_is_done()
        strike("over", 0)
        return is_done

    return call


def count_calls(begun, where, function, strike):
    def call():
        begun[where] += 1
        strike(where, begun[where] - 1)
        return function()

    return call


def put_in_steps(training, begun, strike):
    compute, update = training.compute, training.update

    def compute_or_die(*args):
        begun.append(training.steps)
        strike("before", training.steps)
        return compute(*args)

    def update_or_die(*args):
        strike("after", training.steps)
        update(*args)
        strike("updated", training.steps - 1)

    training.compute, training.update = compute_or_die, update_or_die


def put_in_calls(faults, training, strike):
    all_reduce = dist.all_reduce

    def reduce_or_die(sums, *args, **kwargs):
        if any((one.where, one.number) == ("in", training.steps) for one in faults):
            all_reduce(sums.clone(), async_op=True)  # some may get what it sends, others not
            strike("in", training.steps)
        return all_reduce(sums, *args, **kwargs)

    dist.all_reduce = reduce_or_die

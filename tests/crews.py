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


def put_in(faults, training, crew):
    """Have faults happen. Steps and meetings that have begun are noted, and numbered."""
    begun = {"compute": [], "meet": 0, "form_group": 0}
    compute, update, meet, form = training.compute, training.update, crew.meet, crew.form_group
    all_reduce, barrier = dist.all_reduce, dist.barrier

    def strike(where, number):
        for fault in faults:
            if fault.where == where and fault.number == number:
                fault.strike()

    def in_all_reduce(sums, *args, **kwargs):
        if any(fault.where == "in" and fault.number == training.steps for fault in faults):
            all_reduce(sums.clone(), async_op=True)
            strike("in", training.steps)
        return all_reduce(sums, *args, **kwargs)

    def barrier_at_the_end():
        barrier()
        strike("over", 0)

    def compute_and_note(*args):
        begun["compute"].append(training.steps)
        strike("before", training.steps)
        return compute(*args)

    def update_after(*args):
        strike("after", training.steps)
        update(*args)
        strike("updated", training.steps - 1)

    def counted(name, where, function):
        def call():
            begun[name] += 1
            strike(where, begun[name] - 1)
            return function()

        return call

    training.compute, training.update = compute_and_note, update_after
    dist.all_reduce, dist.barrier = in_all_reduce, barrier_at_the_end
    crew.meet = counted("meet", "meeting", meet)
    crew.form_group = counted("form_group", "agreed", form)
    return begun

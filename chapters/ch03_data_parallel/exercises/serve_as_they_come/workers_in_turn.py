"""Workers that push in a given order: what the server is tried with."""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector

from coursekit.kit import measure_answer
from coursekit.kit.rank_trials import make_shared_folder
from coursekit.kit.results import plain

SERVER, ENOUGH = 0, 30  # after so many pushes of one worker, nobody will tell it that it is over

RATE = MOMENTUM = 0.5  # with whole gradients, everything is exact


@dataclass(frozen=True)
class Plan:
    """A case: how many workers, and after how many updates it is over.

    order  in which the workers push; if empty, they push when they are ready
    """

    workers: int
    updates: int
    order: tuple[int, ...] = ()
    is_group = False

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(range(self.workers + 1))

    def __str__(self):
        if self.workers == 1:
            return f"1 worker, over after {self.updates} updates"
        order = f"from {' '.join(map(str, self.order))}" if self.order else "in any order"
        return f"{self.workers} workers, over after {self.updates} updates, pushes {order}"


def gradient_of(worker, number):
    """The gradient of a worker's push: no two are the same, nor are their halves or thirds."""
    return torch.tensor([101.0 * worker + 7 * number, 7.0, number + 1.0], dtype=torch.float64)


def model_of(rank):
    """Another one on every rank."""
    model, chance = nn.Linear(2, 1, dtype=torch.float64), torch.Generator().manual_seed(rank)
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=chance)
    return model


def serve_or_work(answer, group, plan):
    """On a rank: what a server has found, or which weights a worker has pulled."""
    model = model_of(dist.get_rank())
    torch.set_default_dtype(torch.float64)
    if dist.get_rank() != SERVER:
        turns = Turns(make_shared_folder() / str(plan), plan.order)
        pulled = pull_and_push(answer.lab.work, model, turns)
        return {"pulled": pulled, "staleness": [], "last": None}
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    steps = []
    optimizer.register_step_pre_hook(lambda *_: steps.append(gradient_in(model)))
    with measure_answer():
        staleness = answer(model, optimizer, lambda updates: updates >= plan.updates)
    found = {"last": weights_of(model), "steps": steps, "pulled": []}
    return found | {"staleness": plain(staleness)}


def weights_of(model):
    return parameters_to_vector(model.parameters()).detach().clone()


def gradient_in(model):
    """All gradients as one vector; None if one is missing."""
    grads = [parameter.grad for parameter in model.parameters()]
    missing = any(grad is None for grad in grads)
    return None if missing else torch.cat([grad.flatten() for grad in grads])


class Turns:
    """When a worker may push, if the order is given: each push once those before it are answered.

    An answered push leaves a file, which all ranks see. No clock decides about the order.
    """

    def __init__(self, folder, order):
        folder.mkdir(exist_ok=True)
        self.folder, rank = folder, dist.get_rank()
        self.mine = [turn for turn, worker in enumerate(order) if worker == rank]

    def await_turn(self, number):
        before = range(self.mine[number]) if number < len(self.mine) else ()
        while not all((self.folder / str(turn)).exists() for turn in before):
            time.sleep(0.001)

    def mark_answered(self, numbers):
        for turn in self.mine[numbers]:
            (self.folder / str(turn)).touch()


def pull_and_push(work, model, turns):
    """The lab's worker, with gradients that tell who pushed them; returns the weights it pulled."""
    pulled = []

    def compute(number):
        turns.mark_answered(slice(number))
        if number == ENOUGH:
            raise RuntimeError(f"pushed {ENOUGH} gradients, and has been told to go on each time")
        pulled.append(weights_of(model))
        turns.await_turn(number)
        gradient = gradient_of(dist.get_rank(), number)
        for parameter, part in zip(model.parameters(), gradient.split([2, 1])):
            parameter.grad = part.view_as(parameter)

    work(model, compute)
    turns.mark_answered(slice(None))
    return pulled

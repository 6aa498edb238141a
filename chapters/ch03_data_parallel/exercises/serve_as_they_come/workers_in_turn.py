"""Workers that push in a given order, with which the server is tried."""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector

from coursekit.kit import measure_answer
from coursekit.kit.rank_trials import make_shared_folder
from coursekit.kit.results import plain

SERVER, ENOUGH = 0, 30  # rank of the server; pushes after which a worker gives up

RATE = MOMENTUM = 0.5  # exact, because gradients are whole numbers


@dataclass(frozen=True)
class Plan:
    """A case: the number of workers, and of the updates after which it is over.

    order  the order in which workers push; if empty, they push when they are ready
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
    """Return the gradient of a push; no two are equal, nor are their halves or thirds."""
    return torch.tensor([101.0 * worker + 7 * number, 7.0, number + 1.0], dtype=torch.float64)


def model_of(rank):
    """Return a model with other weights on every rank."""
    model, chance = nn.Linear(2, 1, dtype=torch.float64), torch.Generator().manual_seed(rank)
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=chance)
    return model


def serve_or_work(answer, group, plan):
    """Return a rank's results: the server's, or the weights that a worker has pulled."""
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
    """Return all gradients as one vector, or None if one is missing."""
    grads = [parameter.grad for parameter in model.parameters()]
    missing = any(grad is None for grad in grads)
    return None if missing else torch.cat([grad.flatten() for grad in grads])


class Turns:
    """The turns of a worker in a given order: it may push once all earlier pushes are answered.

    An answered push leaves a file that all ranks see, so no clock decides about the order.
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
    """Run the lab's worker with gradients that identify the push; return the weights it pulled."""
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

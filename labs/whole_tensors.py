# Built from chapters/ch06_zero/labs/whole_tensors.py by `make build`.
"""Stage 1 of ZeRO without flat vectors: each tensor belongs to one rank.

torchrun --nproc-per-node 4 labs/whole_tensors.py
"""

import gc
from functools import partial
from heapq import heapify, heapreplace

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import share_of_rank
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from zero import Zero1

ADAM = partial(torch.optim.Adam, lr=1e-3)

# ---- Owners ---------------------------------------------------------------------------------


def largest_first(sizes, n) -> list[int]:
    """Return each tensor's owner: the largest first, each to the rank that has least so far."""
    loads, owners = [(0, rank) for rank in range(n)], [0] * len(sizes)
    heapify(loads)
    for size, k in sorted(((size, k) for k, size in enumerate(sizes)), key=lambda x: -x[0]):
        load, owners[k] = loads[0]
        heapreplace(loads, (load + size, owners[k]))
    return owners


def numbers_of_ranks(sizes, n) -> dict[str, list[int]]:
    """Return {way: how many numbers each rank updates}."""
    owners = {"in turn": [k % n for k in range(len(sizes))],
              "largest first": largest_first(sizes, n)}  # fmt: skip
    whole = {
        way: [sum(size for size, of in zip(sizes, found) if of == rank) for rank in range(n)]
        for way, found in owners.items()
    }
    return whole | {"one flat vector": [-(-sum(sizes) // n)] * n}


class Owners:
    """Stage 1 with whole tensors: a gradient goes to its owner, which sends the new tensor back."""

    def __init__(self, model, make_optimizer):
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        self.parameters = list(model.parameters())
        self.owners = largest_first([p.numel() for p in self.parameters], self.n)
        mine = [p for p, owner in zip(self.parameters, self.owners) if owner == self.rank]
        self.optimizer = make_optimizer(mine)

    def step(self):
        for p, owner in zip(self.parameters, self.owners):
            dist.reduce(p.grad, owner)
            p.grad = p.grad / self.n if owner == self.rank else None
        self.optimizer.step()
        for p, owner in zip(self.parameters, self.owners):
            dist.broadcast(p.detach(), owner)
            p.grad = None


# ---- Costs ----------------------------------------------------------------------------------


def costs(way, text, layers, steps=2) -> dict:
    """Train a small transformer in one of three ways; step k is measured as "step k", from 0."""
    from pedagogy_lib import measure

    gc.collect()
    torch.manual_seed(0)
    model = Transformer(layers=layers)
    if way == "flat":
        run, engine = model, Zero1(model, ADAM, list(model.blocks))
        calls = 2 * len(engine.units)
    elif way == "owners":
        run, engine = model, Owners(model, ADAM)
        calls = 2 * len(engine.parameters)
    else:
        run = DistributedDataParallel(model)
        engine = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-3)
        calls = None
    for step in range(steps):
        inputs, targets = share_of_rank(draw_batch(text, 16, step))
        with measure(f"step {step}"):
            mean_loss(run(inputs), targets).backward()
            engine.step()
        model.zero_grad()
    groups = getattr(engine, "optimizer", engine)
    groups = getattr(groups, "optim", groups).param_groups
    return {
        "model": sum(p.nbytes for p in model.parameters()),
        "updated": sum(p.numel() for group in groups for p in group["params"]),
        "calls": calls,
    }


def row_of(run, name, last=1) -> list:
    """Return a table's row: collectives, most bytes sent and most numbers updated by a rank."""
    models = max(run[f"step {last}"].sent_bytes) / run.values[0]["model"]
    numbers = run.values[0]["model"] / 4 / run.world_size
    busiest = max(value["updated"] for value in run.values)
    return [name, run.values[0]["calls"] or "", f"{models:.2f} models",
            f"{busiest / numbers:.2f} times its share"]  # fmt: skip


# ---- Programs with a bug --------------------------------------------------------------------


def try_in_parts(train_in_parts, length, steps):
    """Return a flat-vector program's result if this rank pulls all numbers to its own goal."""
    values, goal = torch.arange(1.0, length + 1), 10.0 * (1 + dist.get_rank())
    pull = lambda flat, step: flat - goal  # noqa: E731
    return train_in_parts(values, pull, partial(torch.optim.SGD, lr=0.5), steps).tolist()


def alone_in_parts(length, n, steps):
    """Return the result of one process with the mean of all ranks' pulls."""
    values = torch.arange(1.0, length + 1)
    for _ in range(steps):
        values -= 0.5 * (values - 10.0 * (1 + n) / 2)
    return values.tolist()


class ConditionalLayers(nn.Module):
    """Three layers, some of which a batch uses: the first number of its inputs says which."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(3)).double()
        for k, layer in enumerate(self.layers):
            nn.init.constant_(layer.weight, 0.1 * (k + 1))

    def forward(self, x):
        used, x = int(x[0, 0]), x[:, 1:]
        for k, layer in enumerate(self.layers):
            x = x + layer(x) if used >> k & 1 else x
        return x


ROUTES = (0b111, 0b101, 0b111)  # the layers of each step: all, without the middle one, all


def batches_of(rank, steps):
    source = torch.Generator().manual_seed(rank)
    device = torch.get_default_device()
    rows = lambda: torch.randn(3, 2, generator=source, dtype=torch.float64, device="cpu").to(device)  # noqa: E731
    return [(torch.cat([torch.full((3, 1), 1.0 * route), rows()], 1), rows())
            for route in ROUTES[:steps]]  # fmt: skip


MOMENTUM = partial(torch.optim.SGD, lr=0.1, momentum=0.9)


def gaps_by_owner(train_by_owner):
    """Return how far each layer's weights are from one process's after 1, 2 and 3 steps."""
    found, n = [], dist.get_world_size()
    for steps in (1, 2, 3):
        model, alone = ConditionalLayers(), ConditionalLayers()
        optimizer = MOMENTUM(alone.parameters())
        train_by_owner(model, nn.functional.mse_loss, batches_of(dist.get_rank(), steps), MOMENTUM)
        for of_ranks in zip(*(batches_of(rank, steps) for rank in range(n))):
            optimizer.zero_grad()
            for inputs, targets in of_ranks:
                (nn.functional.mse_loss(alone(inputs), targets) / n).backward()
            optimizer.step()
        pairs = zip(model.parameters(), alone.parameters())
        found.append([(mine - its).abs().max().item() for mine, its in pairs])
    return found


# ---- An optimizer that needs whole matrices -------------------------------------------------


def muon(parameters):
    return torch.optim.Muon(parameters, lr=0.1, momentum=0, nesterov=False, weight_decay=0)


def step_alone(weight, gradient):
    """Return a matrix after one step of Muon with this gradient."""
    p = nn.Parameter(weight.clone())
    p.grad = gradient.clone()
    muon([p]).step()
    return p.detach()


def owners_equal_alone(weights, gradients) -> bool:
    """Return whether ranks with at least one matrix each equal `step_alone` to the last bit.

    All ranks have the same gradients here.
    """
    device = torch.get_default_device()
    model = nn.ParameterList(nn.Parameter(weight.clone().to(device)) for weight in weights)
    engine = Owners(model, muon)
    pairs = [(w.to(device), g.to(device)) for w, g in zip(weights, gradients)]
    for p, (_, gradient) in zip(model, pairs):
        p.grad = gradient.clone()
    engine.step()
    return all(torch.equal(p, step_alone(*pair)) for p, pair in zip(model, pairs))


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    for way in ("flat", "owners", "ZeroRedundancyOptimizer"):
        run = launch(costs, way, text, 2, world_size=4)
        if run.rank == 0:
            _, calls, models, share = row_of(run, way)
            print(f"{way}: {calls or 'some'} collectives, {models} sent, busiest rank {share}")


if __name__ == "__main__":
    main()

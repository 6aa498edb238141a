# Built from chapters/ch06_zero/labs/recipe_symptoms.py by `make build`.
"""The symptoms of an FSDP2 recipe that are visible from outside, next to those of one process.

torchrun --nproc-per-node 2 labs/recipe_symptoms.py
"""

import warnings
from functools import partial

import torch
import torch.distributed as dist
from fsdp2_recipe import mesh_of_all
from simple_ddp import share_of_rank
from torch import nn

# ---- Symptoms of a recipe ------------------------------------------------------------------------


def tiny(seed):
    """Return a small model with `blocks`, drawn from a seed."""
    torch.manual_seed(seed)
    return TinyModel().double()


class TinyModel(nn.Module):
    """Three blocks and one more linear layer."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        for block in self.blocks:
            x = torch.tanh(block(x))
        return self.last(x)


def all_numbers(model):
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return torch.cat([p.detach().flatten() for p in whole])


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1.0)


def samples_for(model):
    """Return twelve inputs and targets, the same on every rank."""
    chance = torch.Generator().manual_seed(1)
    x = torch.randn(12, 8, generator=chance, dtype=torch.float64, device="cpu")
    x = x.to(next(model.parameters()).device)
    return x, 3 * x[:, :4] + 1


def first_step(model, step, share) -> tuple[float, float]:
    """Take a step; return its loss on this rank, and how far it has moved the weights."""
    before = all_numbers(model)
    loss = step(*share(samples_for(model)))
    return loss.item(), (all_numbers(model) - before).norm().item()


def symptoms(prepare) -> list[float]:
    """Return four symptoms of the model and the step that prepare() makes.

    They are the loss of a first step, over all ranks; how far SGD with the rate 1 moves the
    weights; how far with the limit 0.1; and how many all-gathers a step makes.
    """
    n, free = dist.get_world_size(), None
    for limit in (1e9, 0.1):
        model, step = prepare(lambda: tiny(dist.get_rank()), mesh_of_all(), sgd, limit)
        loss, moved = first_step(model, step, share_of_rank)
        free = free or (loss, moved)
    total = torch.tensor(free[0])
    dist.all_reduce(total)
    return [total.item() / n, free[1], moved, gathers_in(step, model)]


def gathers_in(step, model) -> int:
    from torch.distributed.tensor.debug import CommDebugMode

    warnings.simplefilter("ignore")  # about hooks that the counting sets
    with CommDebugMode() as counted:
        step(*share_of_rank(samples_for(model)))
    return sum(count for call, count in counted.get_comm_counts().items() if "gather" in str(call))


def right_symptoms() -> list[float]:
    """Return the symptoms of one process, and the gathers that three blocks and a root take."""
    found = []
    for limit in (1e9, 0.1):
        model = tiny(0)
        step = partial(plain_step, model, sgd(model.parameters()), limit)
        found += first_step(model, step, lambda samples: samples)
    return [found[0], found[1], found[3], 2 * 3 + 1]


def plain_step(model, optimizer, limit, x, y):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss.detach()


# ---- The program ----------------------------------------------------------------------------


def only_cut(make_model, mesh, make_optimizer, limit):
    """Cut the model and nothing else: a recipe that clips nothing."""
    from torch.distributed.fsdp import fully_shard

    model = make_model()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, partial(plain_step, model, make_optimizer(model.parameters()), 1e9)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(symptoms, only_cut, world_size=2)
    if run.rank == 0:
        loss, free, clipped, gathers = run.values[0]
        print(f"loss {loss:.3f}, moved by {free:.3f} and {clipped:.3f}, {gathers} all-gathers")


if __name__ == "__main__":
    main()

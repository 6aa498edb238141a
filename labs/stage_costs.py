# Built from chapters/ch06_zero/labs/stage_costs.py by `make build`.
"""The bytes that a step of each stage sends and holds: with micro-batches, and with recomputation.

torchrun --nproc-per-node 2 labs/stage_costs.py
"""

from contextlib import nullcontext
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from language_model import draw_batch, mean_loss, standard_library
from sharding_engines import ENGINES, make_model
from simple_ddp import share_of_rank
from torch import nn
from torch.utils.checkpoint import checkpoint
from zero import Zero3

STAGES = {"DDP": "DDP"} | {f"stage {k}": f"ours, stage {k}" for k in (1, 2, 3)}


# ---- Micro-batches --------------------------------------------------------------------------


def accumulate(stage, counts, text) -> int:
    """Take steps of so many micro-batches each, measured as "in 4"; return the model's bytes."""
    from pedagogy_lib import measure

    engine = ENGINES[STAGES[stage]](make_model())
    batch = share_of_rank(draw_batch(text, max(counts) * dist.get_world_size(), 0))
    for label, count in [("warm-up", 1)] * 2 + [(f"in {count}", count) for count in counts]:
        with measure(label, memory=False):  # DDP makes its buckets in the first backwards
            one_step(engine, zip(*(x.chunk(count) for x in batch)), count)
    return sum(p.nbytes for p in make_model().parameters())


def one_step(engine, micro_batches, count):
    """Take one step; DDP sends in the last backward alone, and the stages as they always do."""
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        waits = number < count and hasattr(engine.module, "no_sync")
        with engine.module.no_sync() if waits else nullcontext():
            engine.backward(mean_loss(engine.module(inputs), targets) / count)
    engine.step()


def count_models_sent(run, label) -> float:
    """Return what rank 0 has sent, in models."""
    return run[label].sent_bytes[0] / run.values[0]


# ---- Accumulation in parts, next to one process -----------------------------------------------


def micro_batches_of(rank, count=2):
    chance = torch.Generator().manual_seed(rank)
    return list(torch.randn(count, 2, 4, 3, generator=chance, device="cpu"))


def first_number(accumulate_part) -> tuple[float, float]:
    """Return the first number of this rank's part, and of one process's whole gradient.

    The process has all micro-batches, so rank 0's two numbers should be equal.
    """
    torch.manual_seed(0)
    model = nn.Linear(3, 3).cpu()
    part = accumulate_part(model, F.mse_loss, micro_batches_of(dist.get_rank()))
    of_all = [pair for rank in range(dist.get_world_size()) for pair in micro_batches_of(rank)]
    loss = sum(F.mse_loss(model(inputs), targets) for inputs, targets in of_all) / len(of_all)
    whole = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
    return part[0].item(), whole[0].item()


# ---- Recomputation --------------------------------------------------------------------------


class Again(nn.Module):
    """A block whose forward runs again in the backward, and which keeps only its input."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


def measure_recomputation(is_on, text, layers=8) -> int:
    """Measure the second step of stage 3 with blocks as units; return the model's bytes."""
    from pedagogy_lib import measure

    model = make_model(layers=layers)
    blocks = list(model.blocks)
    if is_on:
        model.blocks = nn.Sequential(*map(Again, blocks))
    engine = Zero3(model, partial(torch.optim.Adam, lr=1e-3), blocks)
    inputs, targets = share_of_rank(draw_batch(text, 8 * dist.get_world_size(), 0))
    for label in ("first", "step"):
        with measure(label):
            mean_loss(model(inputs), targets).backward()
            engine.step()
    return sum(unit.flat.nbytes for unit in engine.units.values())


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    for stage in STAGES:
        run = launch(accumulate, stage, (1, 4), text, world_size=2)
        if run.rank == 0:
            told = ", ".join(
                f"{count_models_sent(run, f'in {m}'):.2f} with {m} micro-batches" for m in (1, 4)
            )
            print(f"{stage}: models sent {told}", flush=True)


if __name__ == "__main__":
    main()

# Built from chapters/ch06_zero/labs/zero_runs.py by `make build`.
"""The bytes that a rank keeps and sends in a step, measured: DDP and the stages of labs/zero.py.

torchrun --nproc-per-node 4 labs/zero_runs.py
"""

import copy
import gc
from contextlib import nullcontext
from functools import partial

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import share_of_rank
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from unit_films import film_units
from zero import STAGES, whole

STATES = ("parameters", "gradients", "optimizer_state")
ADAM = partial(torch.optim.Adam, lr=1e-3)

# ---- By formula -----------------------------------------------------------------------------


def stages_by_formula(numbers, n, each=(4, 4, 8)) -> dict[str, dict[str, float]]:
    """Return {stage: {kind: bytes}} of a rank, for a model of so many parameters on n ranks.

    each  bytes per parameter: of itself, of its gradient, of its optimizer state
    """
    split = {"DDP": (), "stage 1": STATES[2:], "stage 2": STATES[1:], "stage 3": STATES}
    return {
        stage: {kind: size * numbers / (n if kind in kinds else 1)
                for kind, size in zip(STATES, each)}
        for stage, kinds in split.items()
    }  # fmt: skip


def states_in(peak) -> dict[str, int]:
    """Return only the model states of the bytes by kind."""
    return {kind: peak[kind] for kind in STATES}


# ---- Runs on a rank -------------------------------------------------------------------------


class DDP:
    """PyTorch's DDP with the interface of a stage, and the whole optimizer on every rank."""

    def __init__(self, model, make_optimizer, modules=()):
        self.module = DistributedDataParallel(model)
        self.optimizer = make_optimizer(list(model.parameters()))

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


def recompute(module):
    """Make a module keep, from now on, nothing but its input for the backward."""
    module.forward = partial(checkpoint, module.forward, use_reentrant=False)


def training(stage, text, layers=4, steps=3, samples=16, recomputed=False):
    """Train a small transformer, each block of which is a unit; the last step is measured.

    The measured blocks are "step" and, inside it, "after the backward".

    Returns  bytes of the model, bytes of each unit, and how many numbers this rank's optimizer has
    """
    from pedagogy_lib import measure

    gc.collect()  # an engine has cycles: the previous one may still exist
    torch.manual_seed(0)
    model = Transformer(layers=layers)
    engine = (STAGES | {"DDP": DDP})[stage](model, ADAM, list(model.blocks))
    for block in model.blocks if recomputed else ():
        recompute(block)
    run = getattr(engine, "module", model)
    for step in range(steps):
        inputs, targets = share_of_rank(draw_batch(text, samples, step))
        with measure("step") if step == steps - 1 else nullcontext():
            mean_loss(run(inputs), targets).backward()
            with measure("after the backward") if step == steps - 1 else nullcontext():
                pass
            engine.step()
    for hook in getattr(engine, "hooks", ()):
        hook.remove()  # with them, nothing of this engine would ever be freed
    groups = engine.optimizer.param_groups
    return {
        "model": sum(p.numel() for p in Transformer(layers=layers).parameters()) * 4,
        "units": [unit.flat.nbytes for unit in getattr(engine, "units", {}).values()],
        "updated": sum(p.numel() for group in groups for p in group["params"]),
    }


def equals_one_process(stage, text, steps=5) -> bool:
    """Return whether some float64 steps give the weights of one process with the whole batch."""
    from pedagogy_lib import close

    torch.manual_seed(0)
    model = Transformer(16, layers=2, context=16, tied=True).double()
    alone = copy.deepcopy(model)
    optimizer = ADAM(alone.parameters())
    engine = STAGES[stage](model, ADAM, list(model.blocks))
    for step in range(steps):
        batch = draw_batch(text, 3 * dist.get_world_size(), step, context=16)
        inputs, targets = share_of_rank(batch)
        mean_loss(model(inputs), targets).backward()
        engine.step()
        optimizer.zero_grad()
        mean_loss(alone(batch[0]), batch[1]).backward()
        optimizer.step()
    with whole(engine):
        pairs = zip(model.parameters(), alone.parameters())
        return all(close(mine, its, steps=steps) for mine, its in pairs)


def film_step(stage, text):
    """Return a film of the units in one step of a small transformer."""
    torch.manual_seed(0)
    model = Transformer(16, layers=4, context=16)
    engine = STAGES[stage](model, ADAM, list(model.blocks))
    inputs, targets = share_of_rank(draw_batch(text, 4, 0, context=16))
    with film_units(engine.units) as film:  # around one step
        mean_loss(model(inputs), targets).backward()
        engine.step()
    return film


# ---- A layer that is too large for a unit ---------------------------------------------------


class Tiles(nn.Module):
    """Two linear layers with a GELU between them, cut into tiles whose outputs add up."""

    def __init__(self, tiles, width=64, inner=1024):
        super().__init__()
        up, down = nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)
        rows, columns = up.weight.detach().chunk(tiles), down.weight.detach().chunk(tiles, dim=1)
        self.tiles = nn.ModuleList(nn.Sequential(make_linear(a), nn.GELU(), make_linear(b))
                                   for a, b in zip(rows, columns))  # fmt: skip

    def forward(self, x):
        total = 0
        for tile in self.tiles:
            total = total + tile(x)
        return total


def make_linear(weight) -> nn.Linear:
    layer = nn.Linear(*weight.shape[::-1], bias=False)
    layer.weight = nn.Parameter(weight.clone())
    return layer


def measure_tiled_step(tiles) -> dict:
    """Take a step of stage 3 in which each tile is a unit; it is measured as "step"."""
    from pedagogy_lib import measure

    gc.collect()
    torch.manual_seed(0)
    model = Tiles(tiles)
    engine = STAGES["stage 3"](model, ADAM, list(model.tiles))
    x = torch.ones(4, 64).requires_grad_()
    with measure("step"):
        loss = model(x + dist.get_rank()).square().mean()
        loss.backward()
        engine.step()
    for hook in engine.hooks:
        hook.remove()
    return {"model": sum(unit.flat.nbytes for unit in engine.units.values()), "loss": loss.item()}


# ---- A unit that computes twice -------------------------------------------------------------


class Twice(nn.Module):
    """Three recomputed layers, the first and the last of which are one module; and a head."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        for number in (0, 1, 0):
            x = torch.tanh(checkpoint(self.layers[number], x, use_reentrant=True))
        return self.head(x)


class Hasty(STAGES["stage 2"]):
    """Stage 2 that takes the first portion of a gradient for all of it."""

    def __init__(self, model, *args, **kwargs):
        super().__init__(model, *args, **kwargs)
        for hook in self.hooks[len(list(model.parameters())) :]:
            hook.remove()  # the hooks that follow the modules' calls

    def has_grown(self, unit, parameter):
        self.is_ready(unit, parameter)


def gap_with_recomputation(kind, steps=3) -> float:
    """Train `Twice` in float64; return how far it is from one process, relative to the weights."""
    torch.manual_seed(0)
    model = Twice().double()
    alone, rank, n = copy.deepcopy(model), dist.get_rank(), dist.get_world_size()
    optimizer, engine = ADAM(alone.parameters()), kind(model, ADAM, list(model.layers))
    for _ in range(steps):
        x = torch.randn(2 * n, 8, dtype=torch.float64, requires_grad=True)
        optimizer.zero_grad()
        alone(x).square().mean().backward()
        optimizer.step()
        model(x[2 * rank :][:2]).square().mean().backward()
        engine.step()
    pairs = list(zip(model.parameters(), alone.parameters()))
    off = sum((mine - its).square().sum() for mine, its in pairs)
    return (off / sum(its.square().sum() for _, its in pairs)).sqrt().item()


# ---- Measurements ---------------------------------------------------------------------------


def count_models_sent(run) -> float:
    """Return how many times the model's bytes rank 0 has sent in the step."""
    return run["step"].sent_bytes[0] / run.values[0]["model"]


def course_of(run, kind, rank=0):
    """Return the bytes of a kind, in models, from one change of memory to the next.

    Returns  (percent of the step's changes that are over, models)
    """
    _, history = run["step"].memory[rank][0]
    column = history[:, STATES.index(kind)] / run.values[0]["model"]
    return [100 * k / max(1, len(column) - 1) for k in range(len(column))], column.tolist()


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    for stage in ("DDP", *STAGES):
        run = launch(training, stage, text, world_size=4)
        if run.rank == 0:
            peak = run["after the backward"].peak_bytes[0]
            kept = ", ".join(f"{kind} {peak[kind] / run.values[0]['model']:.2f}" for kind in STATES)
            print(
                f"{stage}: {count_models_sent(run):.2f} models sent; "
                f"after the backward {kept} models"
            )


if __name__ == "__main__":
    main()

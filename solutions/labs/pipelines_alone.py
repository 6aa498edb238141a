# Built from chapters/ch08_pipeline_parallel/labs/pipelines_alone.py by `make build`.
"""Comparison of combined pipelines with one process, and the bytes that they send and keep.

torchrun --nproc-per-node 4 labs/pipelines_alone.py
"""

import contextlib
import textwrap
from itertools import combinations

import torch
from composed_pipelines import (
    SGD,
    DataParallelPipeline,
    ForgetfulStage,
    Plan,
    groups_of,
    make_model,
    seed_of,
)
from language_model import draw_batch, mean_loss, standard_library
from pipeline_parallel import even_sizes, layers_of, pieces_of
from tensor_parallel import parallelize, split_cross_entropy
from torch import nn
from zero import whole

# ---- The same step in one process -----------------------------------------------------------


def backward_alone(model, plan, inputs, targets, replicas, stages, step=0):
    """Compute the gradients of one process, with dropout as the stages have drawn it."""
    layers = layers_of(model)
    pieces = pieces_of(layers, even_sizes(len(layers), stages))
    for replica in range(replicas):
        mine = [part.tensor_split(replicas)[replica] for part in (inputs, targets)]
        parts = zip(*(part.tensor_split(plan.microbatches) for part in mine))
        for i, (x, wanted) in enumerate(parts):
            share = wanted.numel() / targets.numel()
            for stage, piece in enumerate(pieces):
                torch.manual_seed(seed_of(step, replica, stage, i))
                x = piece(x)
            (share * mean_loss(x, wanted)).backward()


def step_alone(model, optimizer, plan, inputs, targets, *which):
    backward_alone(model, plan, inputs, targets, *which)
    if plan.norm:
        nn.utils.clip_grad_norm_(model.parameters(), plan.norm)
    optimizer.step()
    optimizer.zero_grad()


def gap(plan, groups=None, kind=None, steps=2, samples=8) -> float:
    """Return how far this rank's weights are from one process's after some steps, in float64."""
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    engine, alone = DataParallelPipeline(plan, SGD, groups, kind), make_model(plan)
    optimizer = SGD([p for p in alone.parameters() if p.requires_grad])
    text, stages = standard_library(20_000), plan.ranks * len(engine.pieces)
    for number in range(steps):
        batch = draw_batch(text, samples, number, 8)
        engine.step(*batch)
        step_alone(alone, optimizer, plan, *batch, engine.replicas, stages, number)
    with contextlib.ExitStack() as all_whole:
        for zero in engine.zeros:
            all_whole.enter_context(whole(zero))  # ZeRO stage 3 shards them
        mine = set(engine.trained)
        pairs = zip(engine.model.parameters(), alone.parameters())
        return max(relative_gap(p.detach(), q.detach()) for p, q in pairs if p in mine)


# ---- Pairs ----------------------------------------------------------------------------------

FEATURES = {
    "ZB-H1": {"schedule": "ZB-H1"},
    "ZB-V": {"schedule": "ZB-V"},
    "recompute": {"recomputed": True},
    "dropout": {"dropout": 0.2},
    "tied": {"tied": True},
    "frozen": {"frozen": True},
    "clipped": {"norm": 0.1},
    "ZeRO 1": {"zero": 1},
    "ZeRO 2": {"zero": 2},
    "ZeRO 3": {"zero": 3},
}


def pairs() -> list[tuple[str, str]]:
    """Return all pairs of features that are not two values of the same setting."""
    return [(a, b) for a, b in combinations(FEATURES, 2) if not FEATURES[a].keys() & FEATURES[b]]


def try_pairs(some, steps=2) -> dict:
    """Return {(a, b): gap to one process after some steps, or the error message of a refusal}."""
    found, groups = {}, groups_of(2)
    for a, b in some:
        try:
            found[a, b] = gap(Plan(**FEATURES[a], **FEATURES[b]), groups, steps=steps)
        except ValueError as error:
            found[a, b] = str(error)
    return found


def rows_of_pairs(values, largest) -> list[list[str]]:
    """Return a table's rows from the ranks' results; gaps up to `largest` count as rounding."""
    worst = {
        pair: said if isinstance(said, str) else max(of_rank[pair] for of_rank in values)
        for pair, said in values[0].items()
    }
    names = list(FEATURES)
    return [
        [name, *(format_gap(worst.get((name, other), worst.get((other, name))), largest)
                 for other in names)]
        for name in names
    ]  # fmt: skip


def format_gap(found, largest) -> str:
    if found is None:
        return "–"
    if isinstance(found, str):
        return "no"
    return "yes" if found <= largest else f"off by {found:.0e}"


def refusals(values) -> list[str]:
    """Return the error messages that refuse pairs, in lines that fit a window."""
    said = sorted({found for found in values[0].values() if isinstance(found, str)})
    return [textwrap.fill(one, 88, initial_indent="* ", subsequent_indent="  ") for one in said]


# ---- Bytes sent and kept --------------------------------------------------------------------


def measure_steps(counts, samples=16, width=64):
    """Measure a step for each ZeRO stage and each number of micro-batches, on each rank.

    Labels are "0, 4", …; in "none, 4" the replicas send each other nothing. Returns the bytes of
    this rank's weights.
    """
    from pedagogy_lib import measure

    groups, text = groups_of(2), standard_library(20_000)
    inputs, targets = draw_batch(text, samples, 0, 8)
    for m in counts:
        for zero in (None, 0, 1, 2, 3):
            plan = Plan(zero=zero or 0, microbatches=m)
            engine = DataParallelPipeline(plan, SGD, groups, model=make_model(plan, width))
            weights = sum(p.nbytes for p in engine.trained)
            if zero == 3:
                weights = sum(unit.shard.nbytes * unit.n for unit in engine.zeros[0].units.values())
            with measure(f"{'none' if zero is None else zero}, {m}"):
                engine.backward(inputs, targets)
                if zero is not None:
                    engine.reduce()
                    engine.update()
    return weights


def models_sent(run, zero, m, rank=0) -> float:
    """Return the bytes that a rank sends for its replicas, as a multiple of its weights."""
    own = run[f"none, {m}"].sent_bytes[rank]
    return (run[f"{zero}, {m}"].sent_bytes[rank] - own) / run.values[rank]


def gradients_kept(run, zero, m, rank=0) -> float:
    """Return a rank's peak bytes of gradients, as a multiple of its weights."""
    return run[f"{zero}, {m}"].peak_bytes[rank]["gradients"] / run.values[rank]


def measure_against_zero(counts, width=64, blocks=4):
    """Measure a step of 2 stages, of 2 replicas under ZeRO stage 3, and of matrices cut in 2.

    counts  numbers of samples, of 8 tokens each. Labels are "pipeline, 16", "ZeRO 3, 16",
            "tensor parallel, 16", …

    Under ZeRO stage 3 a step has one micro-batch, because it gathers the weights for each anew.
    """
    from pedagogy_lib import measure

    text = standard_library(20_000)
    plans = {"pipeline": Plan(ranks=2), "ZeRO 3": Plan(ranks=1, zero=3, microbatches=1)}
    for name, plan in plans.items():
        groups = groups_of(plan.ranks)
        for count in counts:
            engine = DataParallelPipeline(plan, SGD, groups, model=make_model(plan, width, blocks))
            batch = draw_batch(text, count, 0, 8)
            with measure(f"{name}, {count}", memory=False):
                engine.step(*batch)
    for count in counts:
        model = parallelize(make_model(plan, width, blocks))
        inputs, targets = draw_batch(text, count, 0, 8)
        with measure(f"tensor parallel, {count}", memory=False):
            split_cross_entropy(model(inputs), targets).backward()


# ---- Mistakes to look at --------------------------------------------------------------------


def describe_gap(values, number, largest) -> str:
    """Say how far the gradients of all ranks are off; `number` selects one of two ways."""
    worst = max(of_rank[number] for of_rank in values)
    return "equal, but for rounding" if worst <= largest else f"off by {worst:.0%} of the largest"


def forgotten(dropout=0.2) -> tuple[float, float]:
    """Return how far gradients are off with recomputation: done right, and with other numbers."""
    plan, groups = Plan(recomputed=True, dropout=dropout), groups_of(2)
    return tuple(measure_gap(plan, groups, kind) for kind in (None, ForgetfulStage))


def ends_apart() -> tuple[float, float]:
    """Return how far gradients are off with a tied weight: summed over both ends, and not."""
    plan, groups = Plan(tied=True), groups_of(2)
    return measure_gap(plan, groups), measure_gap(plan, groups, adds_up=False)


def measure_gap(plan, groups, kind=None, adds_up=True) -> float:
    """Return how far this rank's gradients are from one process's, relative to the largest."""
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    engine, alone = DataParallelPipeline(plan, SGD, groups, kind), make_model(plan)
    if not adds_up:
        engine.ends = None
    batch = draw_batch(standard_library(20_000), 8, 0, 8)
    engine.backward(*batch)
    engine.reduce()
    backward_alone(alone, plan, *batch, engine.replicas, plan.ranks * len(engine.pieces))
    mine = set(engine.trained)
    pairs = zip(engine.model.parameters(), alone.parameters())
    return max(relative_gap(p.grad, q.grad) for p, q in pairs if p in mine)


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    some = [("ZB-V", "ZeRO 1"), ("clipped", "ZeRO 2"), ("ZB-H1", "ZeRO 2")]
    run = launch(try_pairs, some, world_size=4)
    if run.rank == 0:
        for pair in some:
            said = run.values[0][pair]
            print(*pair, "|", said if isinstance(said, str) else f"as one process: {said < 1e-12}")


if __name__ == "__main__":
    main()

"""Pipelines whose weights are sharded over replicas, gathered and reduced where a plan says so.

torchrun --nproc-per-node 4 labs/sharded_stages.py
"""

import gc
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from composed_pipelines import SGD, groups_of
from language_model import Transformer, draw_batch, mean_loss, standard_library
from pipeline_parallel import Pipeline, my_stages
from schedules import Action, breadth_first, interleaved_in_groups, rows_of
from zero import Unit, dispose, gather, reduce_gradients

# ---- Plans: actions, and moves of weights and gradients -------------------------------------


class Move(NamedTuple):
    """A move of one chunk's weights or gradients between the replicas of a stage.

    kind   "gather": the chunk's weights become whole; "free": only this rank's shard stays;
           "reduce": this rank gets its part of the replicas' mean gradient, and the rest is freed
    chunk  the number of this rank's chunk; it has to be gathered for "free" and "reduce"
    """

    kind: str
    chunk: int

    def __str__(self):
        return f"{self.kind}.{self.chunk}"


def plan_with_room(row, most) -> list:
    """Return a row's actions with its moves, if at most `most` chunks may be gathered at a time.

    Of the gathered chunks, the one that is needed latest is freed first, which needs the fewest
    gathers. A chunk's gradients are reduced once, after its last action.

    Source  Belady 1966: the page that is used farthest in the future is replaced
    """
    plan, held = [], []
    for number, action in enumerate(row):
        chunk, later = action.chunk, [one.chunk for one in row[number + 1 :]]
        if chunk not in held:
            if len(held) == most:
                latest = max(held, key=later.index)
                held.remove(latest)
                plan.append(Move("free", latest))
            held.append(chunk)
            plan.append(Move("gather", chunk))
        plan.append(action)
        if chunk not in later:
            held.remove(chunk)
            plan += [Move("reduce", chunk), Move("free", chunk)]
    return plan


def count_moves(plan, kind) -> int:
    return sum(isinstance(one, Move) and one.kind == kind for one in plan)


# ---- The engine -----------------------------------------------------------------------------


class ShardedPipeline(Pipeline):
    """A pipeline whose chunks are units of ZeRO over the replicas of this rank's stages.

    `step` takes a plan: actions, and moves in between. Afterwards each unit's shard has its part of
    the mean gradient over the replicas, and `update` steps on it. Frozen weights are in no unit:
    they stay whole, and no optimizer decays them.

    units  {chunk: the unit of its trained weights}, without chunks that have none
    Cost   a gather or a reduce: each rank sends (n-1)/n of the chunk's bytes, for n replicas
    """

    def __init__(self, stages, *args, replicas, make_optimizer=SGD, **options):
        super().__init__(stages, *args, **options)
        self.units = {}
        for chunk, stage in enumerate(stages):
            trained = [p for p in stage.piece.parameters() if p.requires_grad]
            if trained:
                self.units[chunk] = Unit(trained, replicas, alone=True)
        self.optimizers = [make_optimizer([unit.shard]) for unit in self.units.values()]
        for unit in self.units.values():
            dispose(unit)

    def step(self, plan, inputs, targets):
        return super().step(self.run_moves(plan), inputs, targets)

    def run_moves(self, plan):
        """Yield the actions of a plan, and do its moves in between."""
        move = {"gather": gather, "free": dispose, "reduce": reduce_gradients}
        for one in plan:
            if not isinstance(one, Move):
                yield one
            elif one.chunk in self.units:
                move[one.kind](self.units[one.chunk])

    def update(self):
        for optimizer in self.optimizers:  # none if all is frozen
            optimizer.step()
            optimizer.zero_grad()


def make_model(width=16, blocks=6, frozen=()) -> Transformer:
    """Return a small transformer; `frozen` are names of its modules, such as "letters"."""
    torch.manual_seed(0)
    model = Transformer(width=width, heads=2, context=8, layers=blocks)
    for name in frozen:
        model.get_submodule(name).requires_grad_(False)
    return model


def make_pipeline(groups, chunks, width=16, frozen=(), make_optimizer=SGD):
    """Return this rank's pipeline of a small transformer, and the transformer."""
    model, (line, column, _) = make_model(width, frozen=frozen), groups
    stages = my_stages(model, group=line, chunks=chunks)
    options = {"replicas": column, "make_optimizer": make_optimizer}
    return ShardedPipeline(stages, mean_loss, width, line, **options), model


def my_share(part, groups, microbatches):
    """Return this replica's share of a batch, cut into micro-batches."""
    column = groups[1]
    share = part.tensor_split(dist.get_world_size(column))[dist.get_rank(column)]
    return share.tensor_split(microbatches)


# ---- Next to one process --------------------------------------------------------------------

ORDERS = {  # {name: a schedule of (rank, ranks, micro-batches), with a number of chunks}
    "breadth-first": breadth_first,
    "depth-first": interleaved_in_groups,
}


def gap_of_plan(
    order, microbatches, chunks, make_plan, samples=12, steps=2, frozen=(), make_optimizer=SGD
) -> float:
    """Return how far this rank's weights are from one process's after some steps, in float64."""
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    groups = groups_of(2)
    pipeline, model = make_pipeline(groups, chunks, 16, frozen, make_optimizer)
    alone = make_model(frozen=frozen)
    optimizer = make_optimizer([p for p in alone.parameters() if p.requires_grad])
    plan = make_plan(list(ORDERS[order](pipeline.rank, 2, microbatches, chunks=chunks)))
    for number in range(steps):
        inputs, targets = draw_batch(standard_library(20_000), samples, number, 8)
        pipeline.step(plan, *(my_share(part, groups, microbatches) for part in (inputs, targets)))
        pipeline.update()
        optimizer.zero_grad()
        mean_loss(alone(inputs), targets).backward()
        optimizer.step()
    for unit in pipeline.units.values():
        gather(unit)
    mine = {p for stage in pipeline.stages for p in stage.piece.parameters()}
    pairs = [pq for pq in zip(model.parameters(), alone.parameters()) if pq[0] in mine]
    return max(relative_gap(p.detach(), q.detach()) for p, q in pairs)


# ---- Bytes sent and kept --------------------------------------------------------------------


def measure_plans(plans, chunks, samples=16, width=64):
    """Measure a step of each plan, {name: (plan of every rank, micro-batches)}, on each rank.

    Two pipelines of two ranks are replicas. "…, alone" is the same step without moves between
    replicas. Returns the bytes of each chunk of this rank, padding included.
    """
    groups = groups_of(2)
    batch = draw_batch(standard_library(20_000), samples, 0, 8)
    for name, (of_ranks, microbatches) in plans.items():
        parts = [my_share(part, groups, microbatches) for part in batch]
        sizes = measure_plan(name, of_ranks, parts, groups, chunks, width)
        gc.collect()  # the pipeline is in reference cycles
    return sizes


def measure_plan(name, plans, parts, groups, chunks, width) -> list[int]:
    from pedagogy_lib import measure

    pipeline = make_pipeline(groups, chunks, width)[0]
    plan = plans[pipeline.rank]
    pipeline.step(plan, *parts)  # shards have gradients from now on, in every plan
    with measure(name):
        pipeline.step(plan, *parts)
    for unit in pipeline.units.values():
        gather(unit)
    with measure(f"{name}, alone"):
        pipeline.step([one for one in plan if isinstance(one, Action)], *parts)
    return [unit.flat.nbytes for unit in pipeline.units.values()]


def plan_rows(order, microbatches, chunks, make_plan):
    """Return the plan of both ranks of a pipeline, and the number of micro-batches."""
    rows = rows_of(ORDERS[order], 2, microbatches, chunks=chunks)
    return [make_plan(row) for row in rows], microbatches


def models_sent(run, name, rank=0) -> float:
    """Return the bytes that a rank sends to its replica, as a multiple of its weights."""
    sent = run[name].sent_bytes[rank] - run[f"{name}, alone"].sent_bytes[rank]
    return sent / sum(run.values[rank])


def models_planned(run, plan, rank=0) -> float:
    """Return what a plan's moves send to one replica, as a multiple of a rank's weights."""
    sizes = run.values[rank]
    moved = [sizes[one.chunk] / 2 for one in plan if isinstance(one, Move) and one.kind != "free"]
    return sum(moved) / sum(sizes)


def peak_kilobytes(run, name, kind, rank=0) -> float:
    return run[name].peak_bytes[rank][kind] / 1e3


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    for order in ORDERS:
        plan = partial(plan_with_room, most=1)
        run = launch(gap_of_plan, order, 3, 2, plan, world_size=4)
        if run.rank == 0:
            print(f"{order}: weights of one process to 1e-12: {max(run.values) < 1e-12}")


if __name__ == "__main__":
    main()

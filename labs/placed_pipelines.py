# Built from chapters/ch08_pipeline_parallel/labs/placed_pipelines.py by `make build`.
"""A pipeline for any placement of stages on ranks, with whole backwards and halves together.

torchrun --nproc-per-node 2 labs/placed_pipelines.py
"""

from functools import partial

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from pipeline_parallel import (
    Pipeline,
    SplitStage,
    Stage,
    even_sizes,
    layers_of,
    no_context,
    pieces_of,
    tag_of,
)
from simple_ddp import now
from torch import Tensor
from zero_bubbles import (
    IN_PAIRS,
    SCHEDULES,
    TWO_COPIES,
    blocks_of,
    rows_and_stages,
    seconds_of_chunks,
    simulate_schedule,
)

# ---- Stages ---------------------------------------------------------------------------------


def stages_here(model, stages, make=SplitStage, group=None) -> list[Stage]:
    """Return this rank's stages; stages[rank] has their numbers in the model, one per chunk."""
    layers, count = layers_of(model), 1 + max(map(max, stages))
    pieces = pieces_of(layers, even_sizes(len(layers), count))
    return [make(pieces[stage]) for stage in stages[dist.get_rank(group)]]


# ---- The pipeline ---------------------------------------------------------------------------


class PlacementPipeline(Pipeline):
    """A pipeline with chunks placed by `stages`: stages[rank][chunk] is a stage of the model.

    A tensor for a stage on the same rank is handed over, and not sent.

    If each chunk has all stages, the chunks are copies of the model, and a micro-batch goes through
    one of them. The last rank of each copy returns the loss of its micro-batches. The gradients of
    a stage's copies have yet to be summed: see sum_copies.
    """

    def __init__(self, here, loss_of, width, stages, **options):
        super().__init__(here, loss_of, width, **options)
        self.mine, self.last = stages[self.rank], max(map(max, stages))
        self.ranks_of = {stage: {} for stage in range(self.last + 1)}  # {stage: {chunk: rank}}
        for rank, of_rank in enumerate(stages):
            for chunk, stage in enumerate(of_rank):
                self.ranks_of[stage][chunk] = rank
        self.copies = len(self.ranks_of[0])

    def is_first(self, chunk) -> bool:
        return self.mine[chunk] == 0

    def is_last(self, chunk) -> bool:
        return self.mine[chunk] == self.last

    def peer(self, action, sending=False) -> int:
        """Return the rank to which an action's result goes, or from which its input comes."""
        onwards = (action.kind == "F") == sending
        ranks = self.ranks_of[self.mine[action.chunk] + (1 if onwards else -1)]
        return ranks.get(action.chunk, min(ranks.values()))  # among copies, that of the same chunk

    def line_between(self, sender, receiver, action):
        """Return a message's group; on NCCL, upward and downward messages have separate ones."""
        return self.lines[action.kind == "F", receiver < sender]

    def receive(self, action) -> Tensor:
        peer = self.peer(action)
        if peer == self.rank:
            return self.own.pop(tag_of(action))
        x = torch.empty(*self.inputs[action.microbatch].shape, self.width, dtype=self.dtype)
        line = self.line_between(peer, self.rank, action)
        dist.recv(x, group=line, group_src=peer, tag=tag_of(action))
        return x

    def send(self, x, action):
        peer = self.peer(action, sending=True)
        if peer == self.rank:
            self.own[tag_of(action)] = x
            return
        self.refuse_other(x, action)
        line = self.line_between(self.rank, peer, action)
        request = dist.isend(x, group=line, group_dst=peer, tag=tag_of(action))
        self.under_way.append((request, x))


class PairedPipeline(PlacementPipeline):
    """A pipeline that runs each pair of DualPipe as one block.

    It gets the inputs of both actions before it computes, and sends both results afterwards.
    """

    def step(self, actions, inputs, targets):
        return super().step(self.run_blocks(actions), inputs, targets)

    def run_blocks(self, actions):
        """Yield the actions; each block's messages come before its first one or after its last."""
        for block in blocks_of(actions):
            self.arrived, self.results = {}, []
            for action in filter(self.needs_input, block):
                self.arrived[action] = super().receive(action)
            yield from block
            for x, action in self.results:
                super().send(x, action)

    def needs_input(self, action) -> bool:
        at_end = self.is_first if action.kind == "F" else self.is_last
        return action.kind != "W" and not at_end(action.chunk)

    def receive(self, action):
        return self.arrived.pop(action)

    def send(self, x, action):
        self.results.append((x, action))


def make_placement_pipeline(
    model, stages, make=SplitStage, group=None, kind=PlacementPipeline, **options
) -> PlacementPipeline:
    """Return this rank's part of a transformer, as a pipeline of class `kind`."""
    here, width = stages_here(model, stages, make, group), model.places.weight.shape[1]
    return kind(here, mean_loss, width, stages, group=group, **options)


# ---- Copies of the model --------------------------------------------------------------------


def copies_of(stages, group=None) -> dict:
    """Return {stage: the group of ranks that have a copy of it}; all ranks have to call this."""
    ranks, found = dist.get_process_group_ranks(group), {}
    for stage in range(1 + max(map(max, stages))):
        places = [ranks[rank] for rank, of_rank in enumerate(stages) if stage in of_rank]
        if len(places) > 1:
            found[stage] = dist.new_group(places)
    return found


def sum_copies(pipeline, copies):
    """Sum each stage's gradients over its copies: once, before the optimizer's step.

    Cost  per stage an all-reduce of its gradients between the ranks that have a copy
    """
    for stage in sorted(set(pipeline.mine) & set(copies)):  # on all ranks in the same order
        for p in pipeline.stages[pipeline.mine.index(stage)].piece.parameters():
            dist.all_reduce(p.grad, group=copies[stage])


# ---- Measurements ---------------------------------------------------------------------------


def layers_for(ranks, chunks=2) -> int:
    """Return how many blocks are enough for all stages; embedding and scores are layers, too."""
    return max(2, ranks * chunks)


def class_for(name) -> type:
    """Return the class of pipeline that runs a schedule."""
    return PairedPipeline if name in IN_PAIRS else PlacementPipeline


def one_batch(rows, stages, around=no_context, link_seconds=0.0, samples=2, kind=PlacementPipeline):
    """Run one batch through a small transformer, as this rank's row says, measured as "step".

    It runs twice, the first time to warm up.
    """
    import contextlib

    from pedagogy_lib import measure, throttle

    torch.manual_seed(0)
    row, width, context = rows[dist.get_rank()], 32, 16
    blocks = layers_for(len(rows), len(stages[0]))
    model = Transformer(width=width, heads=2, context=context, layers=blocks)
    pipeline = make_placement_pipeline(model, stages, kind=kind)
    m = 1 + max(action.microbatch for action in row)
    batch = draw_batch(standard_library(20_000), samples * m, 0, context)
    parts = [part.tensor_split(m) for part in batch]
    pipeline.step(row, *parts)
    pipeline.around = around
    dist.barrier()
    message = samples * context * width * 4
    slow = throttle(message / link_seconds) if link_seconds else contextlib.nullcontext()
    with slow, measure("step", memory=False):
        pipeline.step(row, *parts)


def emulate_schedule(name, ranks, microbatches, seconds):
    """Return a schedule's timelines, simulated and measured on real ranks.

    seconds  of F, I, W and B on a rank's whole part of the model; computation is emulated
    """
    from pedagogy_lib import launch, paced, timeline_of

    rows, stages = rows_and_stages(name, ranks, microbatches)
    options = {"around": paced(seconds_of_chunks(rows, seconds)), "kind": class_for(name)}
    run = launch(partial(one_batch, **options), rows, stages, world_size=ranks, device="cpu")
    simulated = simulate_schedule(name, ranks, microbatches, seconds, unit="s")
    return simulated, timeline_of(run, rows)


def gaps(names, microbatches, samples=8, blocks=None) -> dict[str, float]:
    """Return {schedule: how far this rank's gradients are from one process's}, in float64."""
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    ranks, found = dist.get_world_size(), {}
    for name in names:
        rows, stages = rows_and_stages(name, ranks, microbatches)
        split, alone = (small_model(ranks, blocks) for _ in range(2))
        inputs, targets = draw_batch(standard_library(20_000), samples, 0)
        mean_loss(alone(inputs), targets).backward()
        pipeline = make_placement_pipeline(split, stages, kind=class_for(name))
        parts = [part.tensor_split(microbatches) for part in (inputs, targets)]
        pipeline.step(rows[dist.get_rank()], *parts)
        sum_copies(pipeline, copies_of(stages))
        mine = {id(p) for stage in pipeline.stages for p in stage.piece.parameters()}
        pairs = zip(split.parameters(), alone.parameters())
        found[name] = max(relative_gap(p.grad, q.grad) for p, q in pairs if id(p) in mine)
    return found


def small_model(ranks, blocks=None) -> Transformer:
    torch.manual_seed(0)
    return Transformer(width=32, heads=2, layers=blocks or layers_for(ranks))


def seconds_of_kinds(width=128, blocks=2, samples=4, context=64, rounds=30) -> dict[str, float]:
    """Return the seconds of some blocks' F, I and W in their fastest rounds, and B as I plus W."""
    torch.manual_seed(0)
    model = Transformer(width=width, layers=blocks, context=context)
    stage = SplitStage(torch.nn.Sequential(*model.blocks))
    x, fastest = torch.randn(samples, context, width), {}
    for _ in range(rounds):
        began = now()
        y = stage.forward(0, x)
        middle = now()
        stage.input_gradient(0, torch.ones_like(y))
        late = now()
        stage.weight_gradients(0)
        took = {"F": middle - began, "I": late - middle, "W": now() - late}
        fastest = {kind: min(fastest.get(kind, t), t) for kind, t in took.items()}
    return fastest | {"B": fastest["I"] + fastest["W"]}


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    names = [*SCHEDULES, *TWO_COPIES]
    run = launch(gaps, names, 8, world_size=2)
    if run.rank == 0:
        for name in names:
            gap = max(of_rank[name] for of_rank in run.values)
            print(f"{name}: gradients of one process to 1e-12: {gap < 1e-12}")


if __name__ == "__main__":
    main()

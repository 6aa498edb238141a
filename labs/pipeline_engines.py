# Built from chapters/ch08_pipeline_parallel/labs/pipeline_engines.py by `make build`.
"""PyTorch's engine: torch.distributed.pipelining runs the same stages with the same schedules.

torchrun --nproc-per-node 2 labs/pipeline_engines.py
"""

import math

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from pipeline_parallel import (
    Pipeline,
    Stage,
    even_sizes,
    layers_of,
    my_pipeline,
    pieces_of,
    stage_in_halves,
    tag_of,
)
from placed_pipelines import PlacementPipeline, make_placement_pipeline
from schedules import SCHEDULES, Action
from simple_ddp import now
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)
from zero_bubbles import place_v_stages, rows_and_stages

KINDS = {  # PyTorch's names for the kinds of action
    "FORWARD": "F",
    "FULL_BACKWARD": "B",
    "BACKWARD_INPUT": "I",
    "BACKWARD_WEIGHT": "W",
}
IN_A_V = ("ZB-V", "DualPipeV")
CHUNKS = {"interleaved 1F1B": 2, "ZB-V": 2, "DualPipeV": 2}  # per rank, in our schedules; else 1
ENGINES = {  # (class, stages per rank)
    "GPipe": (ScheduleGPipe, 1),
    "1F1B": (Schedule1F1B, 1),
    "interleaved 1F1B": (ScheduleInterleaved1F1B, 2),
    "interleaved zero bubble": (ScheduleInterleavedZeroBubble, 2),
    "ZB-V": (ScheduleZBVZeroBubble, 2),
    "DualPipeV": (ScheduleDualPipeV, 2),
}


class EagerPipeline(Pipeline):
    """A pipeline that begins to receive for the next action before it runs the current one.

    A message can then arrive while the rank computes. With `receive` alone it is not accepted
    until the rank waits for it, which takes one message to the sender and one back.
    """

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.expected = {}  # {action: (request, the tensor that it fills)}

    def step(self, actions, inputs, targets):
        return super().step(self.expect_actions(list(actions)), inputs, targets)

    def expect_actions(self, actions):
        """Yield each action once this rank has begun to receive for it and for the next one."""
        for number, action in enumerate(actions):
            self.expect(actions[number : number + 2])
            yield action

    def expect(self, actions):
        for action in actions:
            if self.needs_message(action) and action not in self.expected:
                shape = *self.inputs[action.microbatch].shape, self.width
                x = torch.empty(shape, dtype=self.dtype)
                peer, line = self.source_of(action)
                request = dist.irecv(x, group=line, group_src=peer, tag=tag_of(action))
                self.expected[action] = request, x

    def source_of(self, action):
        """Return the rank that sends the input of an action, and the group of the message."""
        peer = (self.rank + (-1 if action.kind == "F" else 1)) % self.ranks
        return peer, self.line(action)

    def needs_message(self, action) -> bool:
        if self.ranks == 1 or action.kind == "W":
            return False
        at_end = self.is_first if action.kind == "F" else self.is_last
        return not at_end(action.chunk)

    def receive(self, action):
        if action not in self.expected:
            return super().receive(action)  # it has not left this rank
        request, x = self.expected.pop(action)
        request.wait()
        return x


class EagerPlacedPipeline(EagerPipeline, PlacementPipeline):
    """An EagerPipeline for stages in any placement."""

    def source_of(self, action):
        peer = self.peer(action)
        return peer, self.line_between(peer, self.rank, action)

    def needs_message(self, action):
        return super().needs_message(action) and self.peer(action) != self.rank


class Ours:
    """A transformer under our SCHEDULES or IN_A_V; step(inputs, targets) computes its gradients."""

    def __init__(self, name, model, microbatches, **options):
        self.chunks, self.microbatches = CHUNKS.get(name, 1), microbatches
        if name in IN_A_V:
            rows, stages = rows_and_stages(name, dist.get_world_size(), microbatches)
            self.pipeline = make_placement_pipeline(
                model, stages, kind=EagerPlacedPipeline, **options
            )
            self.actions = rows[self.pipeline.rank]
            return
        make = stage_in_halves if name == "zero bubble" else Stage
        self.pipeline = my_pipeline(
            model, chunks=self.chunks, make=make, kind=EagerPipeline, **options
        )
        more = {"chunks": self.chunks} if self.chunks > 1 else {}
        place = self.pipeline.rank, self.pipeline.ranks
        self.actions = list(SCHEDULES[name](*place, microbatches, **more))

    @property
    def pieces(self) -> list[nn.Module]:
        return [stage.piece for stage in self.pipeline.stages]

    def step(self, inputs, targets) -> float:
        """Compute the gradients; return the mean loss on the last stage's rank, 0 elsewhere."""
        halves = inputs.tensor_split(self.microbatches), targets.tensor_split(self.microbatches)
        return self.pipeline.step(self.actions, *halves)


class Engine:
    """A transformer under one of the ENGINES; step(inputs, targets) computes its gradients."""

    def __init__(self, name, model, microbatches):
        make, chunks = ENGINES[name]
        rank, ranks = dist.get_rank(), dist.get_world_size()
        layers, last = layers_of(model), ranks * chunks - 1
        mine = list(range(rank, last + 1, ranks))
        if name in IN_A_V:  # stages go to the last rank, and back
            mine = place_v_stages(ranks)[rank]
        pieces = pieces_of(layers, even_sizes(len(layers), last + 1))
        self.pieces = [pieces[stage] for stage in mine]
        self.is_first, self.is_last = 0 in mine, last in mine
        device = torch.get_default_device()
        stages = [PipelineStage(pieces[stage], stage, last + 1, device) for stage in mine]
        self.schedule = make(
            stages if chunks > 1 else stages[0], n_microbatches=microbatches, loss_fn=mean_loss
        )

    def step(self, inputs, targets) -> float:
        """Compute the gradients; return the mean loss on the last stage's rank, 0 elsewhere."""
        losses = []
        of_last = {"target": targets, "losses": losses} if self.is_last else {}
        # PyTorch 2.11 wants contiguous micro-batches, like the activations after them.
        self.schedule.step(*([inputs.contiguous()] if self.is_first else []), **of_last)
        return sum(loss.item() for loss in losses) / max(1, len(losses))


def orders(names, microbatches) -> dict[str, list[list[Action]]]:
    """Return {name: the ranks' actions} for some schedules IN_A_V, as PyTorch has planned them."""
    found = {}
    for name in names:
        engine = Engine(name, small_model("PyTorch's", name), microbatches)
        planned = engine.schedule.pipeline_order
        found[name] = [convert_plan(planned[rank], rank) for rank in sorted(planned)]
    return found


def convert_plan(planned, rank) -> list[Action]:
    """Convert a rank's plan to our actions; pairs that run at the same time follow each other."""
    done = [one for one in planned if one is not None]
    parts = [part for one in done for part in (one.sub_actions or [one])]
    return [
        Action(
            KINDS[part.computation_type.name], part.microbatch_index, int(part.stage_index != rank)
        )
        for part in parts
    ]


# ---- Measurements ---------------------------------------------------------------------------


def gaps(whose, names, text, microbatches=4) -> dict[str, float]:
    """Return {name: this rank's gap to one process's gradients} in float64; each is measured."""
    from pedagogy_lib import measure

    torch.set_default_dtype(torch.float64)
    (inputs, targets), found = draw_batch(text, 8, 0), {}
    for name in names:
        split, alone = (small_model(whose, name) for _ in range(2))
        mean_loss(alone(inputs), targets).backward()
        engine = ready(whose, name, split, microbatches)
        with measure(name, memory=False):
            engine.step(inputs, targets)
        found[name] = difference(engine, split, alone)
    return found


def runs_here(whose, name) -> bool:
    """Return whether a schedule runs with this version of PyTorch.

    PyTorch's Vs fail over Gloo with 2.11 ("Pair is not connected"), and run with 2.13.
    """
    return whose == "ours" or name not in IN_A_V or torch.__version__ >= "2.13"


def names_that_run() -> dict[str, list[str]]:
    """Return {whose: names} of all schedules that run here."""
    names = {"ours": [*SCHEDULES, *IN_A_V], "PyTorch's": list(ENGINES)}
    return {whose: [name for name in of if runs_here(whose, name)] for whose, of in names.items()}


def time_steps(name, text, microbatches, half=0.040, rounds=1) -> dict[str, list[float]]:
    """Return {whose: seconds of each step}, emulating F, I and W with `half` seconds each.

    The engines take turns. The seconds of one that does not run here are not numbers.
    """
    from pedagogy_lib import SlowLayer

    (inputs, targets), engines = draw_batch(text, microbatches, 0, 8), {}
    for whose in ("ours", "PyTorch's"):
        if not runs_here(whose, name):
            continue
        model = small_model(whose, name, width=16, heads=2, context=8)
        engine = engines[whose] = ready(whose, name, model, microbatches)
        engine.step(inputs, targets)  # to warm up; PyTorch's ranks exchange the shapes
        for piece in engine.pieces:  # one, or two that take half as long
            pause = half / len(engine.pieces)
            piece.append(SlowLayer(pause, pause, pause, getattr(piece, "later", None)))
    seconds = {whose: [] if whose in engines else [math.nan] for whose in ("ours", "PyTorch's")}
    for whose in [*engines] * rounds:
        dist.barrier()
        began = now()
        engines[whose].step(inputs, targets)
        seconds[whose].append(now() - began)
    return seconds


def slowest_rank(of_ranks, whose) -> list[float]:
    """Return the seconds of the slowest rank in each round of `time_steps`."""
    return [max(of_round) for of_round in zip(*(of_rank[whose] for of_rank in of_ranks))]


# ---- The program ----------------------------------------------------------------------------


def small_model(whose, name, **sizes) -> Transformer:
    """Return a transformer with enough layers for all stages, the same in every process."""
    torch.manual_seed(0)
    chunks = CHUNKS.get(name, 1) if whose == "ours" else ENGINES[name][1]
    return Transformer(layers=max(4, dist.get_world_size() * chunks - 2), **sizes)


def ready(whose, name, model, microbatches):
    """Return the engine for a model's gradients; `whose` is "ours" or "PyTorch's"."""
    return {"ours": Ours, "PyTorch's": Engine}[whose](name, model, microbatches)


def difference(engine, model, alone) -> float:
    """Return how far this rank's gradients are from one process's, relative to the largest.

    model  the model that the engine computes with
    alone  an equal model with the gradients of one process
    """
    from pedagogy_lib import relative_gap

    mine = {id(p) for piece in engine.pieces for p in piece.parameters()}
    worst = 0.0
    for (name, p), q in zip(model.named_parameters(), alone.parameters()):
        if id(p) in mine:
            assert p.grad is not None, f"rank {dist.get_rank()} has no gradient for {name}"
            worst = max(worst, relative_gap(p.grad, q.grad))
    return worst


def program(whose, name, text, microbatches=8, samples=16, steps=5):
    """Run some steps; return the loss of the first one and the seconds of the fastest one."""
    from pedagogy_lib import measure

    engine = ready(whose, name, small_model(whose, name), microbatches)
    losses, times = [], []
    inputs, targets = draw_batch(text, samples, 0)
    for _ in range(steps):
        began = now()
        losses.append(engine.step(inputs, targets))
        times.append(now() - began)
    with measure("step"):
        engine.step(inputs, targets)
    return losses[0], min(times)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library()
    for whose, names in names_that_run().items():
        for name in names:
            run = launch(program, whose, name, text, world_size=2)
            if run.rank == 0:
                loss = sum(loss for loss, _ in run.values)
                slowest = max(seconds for _, seconds in run.values)
                sent = sum(run["step"].sent_bytes)
                print(
                    f"{whose}, {name}: loss {loss:.4f}, {1e3 * slowest:.0f} ms a step, "
                    f"{sent / 1e3:.0f} kB sent by all ranks"
                )


if __name__ == "__main__":
    main()

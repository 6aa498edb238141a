# Built from chapters/ch08_pipeline_parallel/labs/composed_pipelines.py by `make build`.
"""Pipelines combined with other features: replicas, ZeRO, recomputation, dropout and clipping.

torchrun --nproc-per-node 4 labs/composed_pipelines.py
"""

from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from pipeline_parallel import (
    RecomputingStage,
    Stage,
    count_targets,
    need_something_to_train,
    no_change,
    sum_tied,
)
from placed_pipelines import PlacementPipeline, SplitStage, stages_here
from tensor_parallel import need_finite
from torch import nn
from zero import Zero1, Zero2, Zero3, flatten_padded, reduce_gradients
from zero_bubbles import SCHEDULES, rows_and_stages

# ---- The features of a run ------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The features of a training run.

    schedule  one of zero_bubbles.SCHEDULES
    zero      ZeRO stage 1, 2 or 3 over the replicas; 0: each replica has everything
    norm      the limit to which the global norm of the gradients is clipped; 0: it is not
    dropout   the share of each block's outputs that is dropped
    tied      whether the embedding and the logits have the same weights
    frozen    whether the first block is not trained
    """

    schedule: str = "1F1B"
    zero: int = 0
    recomputed: bool = False
    dropout: float = 0.0
    tied: bool = False
    frozen: bool = False
    norm: float = 0.0
    ranks: int = 2  # per pipeline
    microbatches: int = 4

    @property
    def splits_backward(self) -> bool:
        return self.schedule not in ("1F1B", "interleaved")

    @property
    def is_v_shaped(self) -> bool:
        return SCHEDULES[self.schedule][1]


def refuse(plan):
    """Raise ValueError, with what to do instead, if features of the plan do not go together."""
    if plan.schedule not in SCHEDULES:
        raise ValueError(
            f"{plan.schedule} is none of {', '.join(SCHEDULES)}: take one of these "
            "(DualPipe trains two copies of the model, whose gradients nobody would add up here)"
        )
    if plan.splits_backward and plan.zero > 1:
        raise ValueError(
            f"ZeRO stage {plan.zero} reduces a gradient as soon as autograd has it, and "
            f"{plan.schedule} computes it later: take ZeRO stage 1"
        )
    if plan.tied and plan.zero > 1:
        raise ValueError(
            f"ZeRO stage {plan.zero} has cut the gradient of a tied weight before both ends of the "
            "pipeline have added theirs up: take ZeRO stage 1"
        )
    if plan.tied and plan.zero and plan.is_v_shaped:
        raise ValueError(
            f"under {plan.schedule} one rank has both ends of the model, in two pieces, and ZeRO "
            "would cut their tied weight twice: take a schedule that is no V"
        )


# ---- The model ------------------------------------------------------------------------------


def make_model(plan, width=16, blocks=4) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(width=width, heads=2, context=8, layers=blocks, tied=plan.tied)
    for block in model.blocks:
        block.mlp.append(nn.Dropout(plan.dropout))
    if plan.frozen:
        model.blocks[0].requires_grad_(False)
    return model


def seed_of(step, replica, stage, microbatch) -> int:
    """Return a dropout seed, so that each forward of a stage draws its own numbers."""
    return 1_000_000 * step + 10_000 * replica + 100 * stage + microbatch


class ReproducibleDropout:
    """A stage whose dropout one process can repeat: each forward begins with a known seed."""

    def forward(self, i, x, then=no_change):
        torch.manual_seed(seed_of(self.step, self.replica, self.number, i))
        return super().forward(i, x, then)


class PlainStage(ReproducibleDropout, Stage):
    """A stage with whole backwards that keeps all activations."""


class CheckpointStage(ReproducibleDropout, RecomputingStage):
    """A stage with whole backwards that keeps its inputs and recomputes the forward."""


class HalvesStage(ReproducibleDropout, SplitStage):
    """A stage with backwards in halves that keeps all activations."""


class CheckpointHalvesStage(ReproducibleDropout, SplitStage, RecomputingStage):
    """A stage with backwards in halves that keeps its inputs and recomputes before its `I`."""


class ForgetfulStage(CheckpointStage):
    """A stage with a mistake: its recomputed forward draws other numbers for dropout."""

    def backward(self, i, gradient=None):
        x, (then, _) = self.kept.pop(i)
        Stage.forward(self, i, x, then)
        return Stage.backward(self, i, gradient)


KINDS = {  # {(in halves, recomputed): stage}
    (False, False): PlainStage,
    (False, True): CheckpointStage,
    (True, False): HalvesStage,
    (True, True): CheckpointHalvesStage,
}


# ---- The groups -----------------------------------------------------------------------------


def groups_of(ranks):
    """Return three groups: this rank's pipeline, its stage in all replicas, its pipeline's ends.

    A pipeline's ranks are neighbours: of 2 ranks each, ranks 0 and 1 are one, 2 and 3 the next.
    """
    world, me = dist.get_world_size(), dist.get_rank()
    lines = [list(range(first, first + ranks)) for first in range(0, world, ranks)]
    columns = [list(range(first, world, ranks)) for first in range(ranks)]
    ends = [sorted({line[0], line[-1]}) for line in lines]
    made = [{tuple(of): dist.new_group(of) for of in each} for each in (lines, columns, ends)]
    return [next((g for of, g in each.items() if me in of), None) for each in made]


# ---- The engine -----------------------------------------------------------------------------


class DataParallelPipeline:
    """Replicas of a pipeline; step(inputs, targets) trains with a batch that all ranks have."""

    def __init__(self, plan, make_optimizer, groups=None, kind=None, model=None):
        refuse(plan)
        self.plan, self.model = plan, model or make_model(plan)
        self.line, self.column, self.ends = groups or groups_of(plan.ranks)
        self.replica, self.steps = dist.get_rank() // plan.ranks, 0
        self.replicas = dist.get_world_size(self.column)
        rows, stages = rows_and_stages(plan.schedule, plan.ranks, plan.microbatches)
        make = kind or KINDS[plan.splits_backward, plan.recomputed]
        here = stages_here(self.model, stages, make, self.line)
        rank = dist.get_rank(self.line)
        self.row = rows[rank]
        for stage, number in zip(here, stages[rank]):
            stage.replica, stage.number = self.replica, number
        width = self.model.places.weight.shape[1]
        self.pipeline = PlacementPipeline(here, mean_loss, width, stages, group=self.line)
        for stage in here:
            if stage.number == 0:
                need_something_to_train(stage.piece)
        self.pieces = [stage.piece for stage in here]
        trained = [p for piece in self.pieces for p in piece.parameters() if p.requires_grad]
        self.trained = list(dict.fromkeys(trained))
        self.zeros = []
        if plan.zero:
            make_zero = (Zero1, Zero2, Zero3)[plan.zero - 1]
            self.zeros = [
                make_zero(piece, make_optimizer, list(piece), self.column) for piece in self.pieces
            ]
        else:
            self.optimizer = make_optimizer(self.trained)

    def step(self, inputs, targets):
        for engine in self.zeros or [self.optimizer]:
            engine.zero_grad()  # what a step that raised has left behind
        self.backward(inputs, targets)
        self.reduce()
        if self.plan.norm:
            clip(self.parts(), self.plan.norm, [self.line, self.column])
        self.update()

    def backward(self, inputs, targets):
        """Run all micro-batches of this replica's share of the batch.

        Raises  ValueError on all ranks if replicas would differ in their number of targets
        """
        refuse_unequal_shares(targets.tensor_split(self.replicas))
        for stage in self.pipeline.stages:
            stage.step = self.steps
        self.steps += 1
        mine = [part.tensor_split(self.replicas)[self.replica] for part in (inputs, targets)]
        self.pipeline.step(self.row, *(part.tensor_split(self.plan.microbatches) for part in mine))
        if self.plan.tied and self.ends is not None and self.has_an_end():
            sum_tied(self.model.letters.weight, self.ends)

    def has_an_end(self) -> bool:
        return dist.get_rank(self.line) in (0, self.plan.ranks - 1) and self.both_ends_apart()

    def both_ends_apart(self) -> bool:
        """Return whether two ranks have the ends; in a V, one has both, and one tied gradient."""
        return dist.get_world_size(self.ends) > 1 and not self.plan.is_v_shaped

    def reduce(self):
        """Average gradients over replicas; ZeRO stages 2 and 3 have done so in the backwards."""
        if self.plan.zero == 1:
            for zero in self.zeros:
                for unit in zero.units.values():
                    reduce_gradients(unit)
        elif not self.plan.zero:
            for p in self.trained:
                dist.all_reduce(p.grad, group=self.column)
                p.grad /= self.replicas

    def update(self):
        if self.plan.zero:
            for zero in self.zeros:
                zero.update()
            return
        self.optimizer.step()
        self.optimizer.zero_grad()

    def parts(self):
        """Return each gradient of this rank, paired with how much its numbers count in the norm."""
        if not self.plan.zero:
            share = 1 / self.replicas  # all replicas have the same gradients
            return [(p.grad, share * self.counts(p)) for p in self.trained]
        return [
            (unit.shard.grad, self.counts_of(unit)) for zero in self.zeros
            for unit in zero.units.values()
        ]  # fmt: skip

    def counts_of(self, unit):
        """Return how much each number of this rank's shard of a unit counts in the norm."""
        whole = [
            torch.full(shape, self.counts(p), dtype=unit.shard.dtype)
            for p, shape in zip(unit.parameters, unit.shapes)
        ]
        return flatten_padded(whole, unit.n).chunk(unit.n)[unit.rank]

    def counts(self, p) -> float:
        """Return how much p counts in the norm; of two tied gradients, only the first counts."""
        twice = p is self.model.letters.weight and self.plan.tied and self.both_ends_apart()
        return 0.0 if twice and dist.get_rank(self.line) == self.plan.ranks - 1 else 1.0


def refuse_unequal_shares(targets):
    """Raise ValueError if replicas, whose mean gradients count equally, have unequal shares."""
    counts = [count_targets(share) for share in targets]
    if len(set(counts)) > 1:
        raise ValueError(
            f"the replicas would have {', '.join(map(str, counts))} targets that count, but their "
            "gradients count equally: give each replica as many samples, with as many targets"
        )


@torch.no_grad()
def clip(parts, most, groups) -> float:
    """Scale gradients so that their norm over all ranks is at most `most`; return the norm.

    parts   [(a gradient, how much its numbers count in the norm: one number, or one for each)]
    groups  squares are summed over one group after another: over the stages, over the shards
    Cost    an all-reduce of one number in each group
    Equals  torch's clip_grad_norm_ of real gradients with error_if_nonfinite=True, which also adds
            1e-6 to the norm
    Raises  RuntimeError on all ranks, before anything changes, if the norm is not finite
    """
    squares = torch.zeros((), dtype=torch.float64)
    for gradient, counts in parts:
        squares += (gradient.double() ** 2 * counts).sum()
    for group in groups:
        dist.all_reduce(squares, group=group)
    norm = need_finite(squares.sqrt())
    for gradient, _ in parts:
        gradient *= (most / (norm + 1e-6)).clamp(max=1.0)
    return norm.item()


# ---- The program ----------------------------------------------------------------------------

SGD = partial(torch.optim.SGD, lr=0.3, momentum=0.9)


def program(text, steps=20) -> tuple[float, float]:
    """Train replicas of two stages under ZeRO stage 1; return the first and the last loss."""
    engine, losses = DataParallelPipeline(Plan(zero=1, norm=1.0), SGD), []
    for number in range(steps):
        engine.step(*draw_batch(text, 16, number, 8))
        losses.append(sum(loss.item() for loss in engine.pipeline.losses))
    return losses[0], losses[-1]


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(100_000), world_size=2)
    if run.rank == 0:
        first, last = run.values[-1]
        print(f"2 stages, ZeRO stage 1, clipped: loss {first:.3f} to {last:.3f}")


if __name__ == "__main__":
    main()

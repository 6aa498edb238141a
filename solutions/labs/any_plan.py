# Built from chapters/ch10_choosing_a_strategy/labs/any_plan.py by `make build`.
"""Training of a small transformer under any plan: dp, pp, cp, tp, ZeRO and recomputation.

torchrun --nproc-per-node 8 labs/any_plan.py
"""

import contextlib
from functools import partial

import torch
import torch.distributed as dist
from cost_model import FULL, SELECTIVE, Plan
from language_model import draw_batch, standard_library
from long_contexts import split_context, zigzag
from memory import recompute_modules
from meshes import Mesh, refuse_ignored
from pipeline_parallel import Pipeline, even_sizes, my_stages, parameters_of, sum_tied
from schedules import one_f_one_b
from tensor_parallel import parallelize, split_cross_entropy, whole
from three_dimensions import (
    OneProcess,
    adam,
    average_over_copies,
    ends_of,
    share_of_copy,
    train,
    whole_model,
)
from torch import Tensor
from zero import Zero1, Zero2, Zero3
from zero import whole as gathered

STAGES = {1: Zero1, 2: Zero2, 3: Zero3}


def mesh_of(plan: Plan) -> Mesh:
    """Make a plan's mesh: ranks along tp are neighbours, then those along cp, dp and pp."""
    return Mesh({"pp": plan.pp, "dp": plan.dp, "cp": plan.cp, "tp": plan.tp}, [("dp", "cp")])


class DpCpMesh:
    """A mesh in which dp and cp are one axis, because their ranks have the same parameters."""

    def __init__(self, mesh):
        self.sizes = {"dp": mesh.sizes["dp"] * mesh.sizes["cp"]}
        self.group = mesh["dp", "cp"]

    def __getitem__(self, axis):
        return self.group


def blocks_of_stages(blocks, stages) -> list[int]:
    """Return each stage's number of layers: equally many blocks, plus the ends of the model.

    Raises  ValueError if there are fewer blocks than stages
    """
    sizes = even_sizes(blocks, stages)
    sizes[0] += 1
    sizes[-1] += 1
    return sizes


def context_of(model) -> int:
    """Return for how many places a model is made; a Llama has no table of them."""
    return model.context if model.places is None else len(model.places.weight)


class AnyPlan:
    """Training under a plan. ZeRO 2 and 3 need pp 1: with stages they would reduce too early.

    model           the whole model, the same on all ranks; this rank keeps its part of it
    make_optimizer  takes a list of parameters
    way             of attention, where the context is split: see labs/long_contexts.py
    """

    def __init__(self, model, plan: Plan, make_optimizer, way="ring"):
        if plan.zero > 1 and plan.pp > 1:
            raise ValueError("ZeRO 2 and 3 reduce in each backward: with a pipeline take ZeRO 1")
        if plan.chunks > 1 or plan.recompute == SELECTIVE:
            raise ValueError("it trains with one chunk a stage, and recomputes layers or nothing")
        self.plan, self.mesh = plan, mesh_of(plan)
        context = context_of(model)
        vocabulary, width = model.letters.weight.shape
        is_tied = model.output.weight is model.letters.weight
        blocks = list(model.blocks)
        parallelize(model, self.mesh["tp"])
        self.places = zigzag(context, plan.cp) if plan.cp > 1 else [torch.arange(context)]
        if plan.cp > 1:
            split_context(model, way, self.places, self.mesh["cp"])
        loss_of = partial(split_cross_entropy, group=self.mesh["tp"], vocabulary=vocabulary)
        (stage,) = my_stages(model, blocks_of_stages(len(blocks), plan.pp), self.mesh["pp"])
        units = [layer for layer in stage.piece if layer in blocks]
        if plan.recompute == FULL:
            recompute_modules(units)
        self.pipeline = Pipeline([stage], loss_of, width, self.mesh["pp"])
        self.parameters, self.zero = parameters_of(self.pipeline), None
        if plan.zero:
            self.zero = STAGES[plan.zero](stage.piece, make_optimizer, units, self.mesh["dp", "cp"])
        else:
            self.optimizer = make_optimizer(self.parameters)
        self.tied = []
        if is_tied and plan.pp > 1:
            self.ends = ends_of(self.mesh)
            at_end = {0: model.letters.weight, plan.pp - 1: model.output.weight}
            self.tied = [at_end[k] for k in at_end if k == self.mesh.at["pp"]]

    def step(self, inputs, targets) -> float:
        """Take a step with a batch, the same on all ranks; return its loss, on every rank.

        Raises  ValueError if the copies would get unequal shares, or if some targets are -100 where
                there are several shares
        """
        refuse_ignored(targets, self.plan.dp * self.plan.cp)
        self.zero_grad()
        parts = [self.in_parts(batch) for batch in (inputs, targets)]
        actions = list(one_f_one_b(self.pipeline.rank, self.pipeline.ranks, len(parts[0])))
        loss = self.pipeline.step(actions, *parts)
        for weight in self.tied:
            if weight.requires_grad:
                sum_tied(weight, self.ends)
        if self.zero is not None:
            self.zero.step()
        else:
            average_over_copies(self.parameters, DpCpMesh(self.mesh))
            self.optimizer.step()
            self.optimizer.zero_grad()
        return self.mean_of(loss)

    def zero_grad(self):
        """Forget the gradients, which a step that raised has left behind."""
        (self.optimizer if self.zero is None else self.zero).zero_grad()

    def in_parts(self, batch) -> list[Tensor]:
        """Return this rank's micro-batches: the samples of its copy, at the places of its piece."""
        share = share_of_copy(batch, self.mesh)[:, self.places[self.mesh.at["cp"]]]
        return list(share.split(self.plan.micro_batch))

    def mean_of(self, loss) -> float:
        """Return the mean of the last stages' losses, on every rank; other stages pass 0."""
        total = torch.tensor(loss, dtype=torch.float64)
        dist.all_reduce(total)
        return total.item() / (self.plan.dp * self.plan.cp * self.plan.tp)


# ---- Comparison with one process ------------------------------------------------------------


def compare_with_one_process(plan, text, steps=3, samples=8, make_model=whole_model) -> float:
    """Train under a plan and in this process alone, in float64, and compare the weights.

    Returns  the difference of this rank's weights from those of one process, as a share of the
             largest number
    """
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    cut, alone = make_model(), OneProcess(make_model())
    context = context_of(cut)
    engine = AnyPlan(cut, plan, adam)
    for number in range(steps):
        batch = draw_batch(text, samples, number, context)
        engine.step(*batch)
        alone.step(*batch)
    mine = {id(p) for p in engine.parameters}
    pairs = zip(cut.parameters(), alone.model.parameters())
    with gathered(engine.zero) if plan.zero == 3 else contextlib.nullcontext():
        return max(relative_gap(whole(p, engine.mesh["tp"]), q) for p, q in pairs if id(p) in mine)


def program(text, steps=20) -> tuple[float, float, float]:
    """Train under a plan of as many dimensions as there are ranks for."""
    n = dist.get_world_size()
    tp = 2 if n % 2 == 0 else 1
    cp = 2 if n % 4 == 0 else 1
    plan = Plan(dp=n // (tp * cp), tp=tp, cp=cp, zero=3, micro_batch=2)
    return train(AnyPlan(whole_model(), plan, adam), text, steps)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(), world_size=8)
    if run.rank == 0:
        first, last, seconds = run.values[0]
        print(f"ZeRO 3 × cp × tp on {run.world_size} ranks: loss {first:.4f} to {last:.4f}, "
              f"{1e3 * seconds:.0f} ms a step")  # fmt: skip


if __name__ == "__main__":
    main()

# Built from chapters/ch07_tensor_parallel/labs/tensor_zero_alone.py by `make build`.
"""Comparison of one process and tensor parallelism with ZeRO, combined with further features.

torchrun --nproc-per-node 4 labs/tensor_zero_alone.py
"""

import textwrap
from itertools import combinations

import torch
import torch.distributed as dist
from language_model import draw_batch, mean_loss, standard_library
from tensor_zero import SGD, PartsOfMasks, Plan, TensorZero, groups_of, make_model
from torch import nn
from zero import whole

# ---- The same training run in one process ---------------------------------------------------


class Alone:
    """The same training run in one process, each step with the whole batch."""

    def __init__(self, plan):
        self.plan, self.model = plan, make_model(plan)
        self.dropout = PartsOfMasks(plan.dropout)
        if plan.dropout:
            self.dropout.add_to(self.model)
        self.optimizer = SGD([p for p in self.model.parameters() if p.requires_grad])

    def step(self, inputs, targets):
        self.dropout.samples = range(len(inputs))
        self.optimizer.zero_grad()
        mean_loss(self.model(inputs), targets).backward()
        if self.plan.norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.plan.norm)
        self.optimizer.step()


def gap(plan, groups=None, steps=2, samples=12) -> float:
    """Return how far this rank's weights are from one process's after some steps, in float64."""
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    engine, alone, text = TensorZero(plan, SGD, groups), Alone(plan), standard_library(20_000)
    for number in range(steps):
        for training in (engine, alone):
            training.dropout.step = number
            training.step(*draw_batch(text, samples, number, 12))
    rank = dist.get_rank(engine.copy)
    with whole(engine.zero):  # ZeRO stage 3 shards them
        return max(
            relative_gap(p.detach(), part_like(p, q.detach(), rank))
            for p, q in zip(engine.model.parameters(), alone.model.parameters(), strict=True)
        )


def part_like(p, of, rank):
    """Return the part of a whole tensor that corresponds to a parameter of a rank."""
    return of.split(p.cut_sizes, p.cut_dim)[rank] if hasattr(p, "cut_dim") else of


# ---- Pairs ----------------------------------------------------------------------------------

FEATURES = {
    "sequence": {"sequence": True},
    "clipped": {"norm": 0.1},
    "accumulated": {"parts": 2},
    "tied": {"tied": True},
    "dropout": {"dropout": 0.2},
    "frozen": {"frozen": True},
    "recompute": {"recomputed": True},
}
STAGES = (1, 2, 3)


def pairs() -> list[tuple[str, ...]]:
    """Return each feature by itself, each pair, and all together."""
    return [*((name,) for name in FEATURES), *combinations(FEATURES, 2), tuple(FEATURES)]


def plan_of(features, zero, **more) -> Plan:
    settings = {}
    for name in features:
        settings |= FEATURES[name]
    return Plan(zero=zero, **settings, **more)


def try_pairs(some, stages=STAGES, tp=2) -> dict:
    """Return {(features, stage): how far weights are from those of one process}."""
    groups = groups_of(tp)
    return {
        (features, zero): gap(plan_of(features, zero, tp=tp), groups)
        for features in some for zero in stages
    }  # fmt: skip


def rows_of_pairs(values, largest) -> list[list[str]]:
    """Return a table's rows; each cell has the ZeRO stages in which a pair equals one process.

    values   the results of try_pairs on each rank
    largest  the largest gap that counts as rounding
    """
    equal = {}
    for features, zero in values[0]:
        if max(of_rank[features, zero] for of_rank in values) <= largest:
            equal.setdefault(frozenset(features), []).append(str(zero))
    return [
        [row, *(" ".join(equal.get(frozenset((row, column)), ["no"])) for column in FEATURES)]
        for row in FEATURES
    ]


# ---- Refused plans --------------------------------------------------------------------------

REFUSED = {  # the ranks, the plan, and the samples of a batch
    "more ranks than key-value heads": (8, Plan(tp=8), 8),
    "parts of other sizes, and pieces of the context": (3, Plan(tp=3, sequence=True), 12),
    "samples that cannot be shared out": (4, Plan(), 7),
    "ranks that make no whole copies": (4, Plan(tp=5), 8),
}


def refusal(plan, samples) -> str:
    """Return the error message that refuses a plan, or "" if the plan is accepted."""
    try:
        TensorZero(plan, SGD).step(*draw_batch(standard_library(20_000), samples, 0, 12))
    except ValueError as error:
        return textwrap.fill(str(error), 88, initial_indent="* ", subsequent_indent="  ")
    return ""


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch, rounding
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(try_pairs, pairs()[-1:], world_size=4)
    if run.rank == 0:
        for features, zero in run.values[0]:
            worst = max(of_rank[features, zero] for of_rank in run.values)
            said = "equals one process" if worst <= rounding(steps=2) else f"off by {worst:.0e}"
            print(f"ZeRO stage {zero} with {', '.join(features)}: {said}")


if __name__ == "__main__":
    main()

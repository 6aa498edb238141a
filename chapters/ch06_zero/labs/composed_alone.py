"""ZeRO with each pair of features, compared with one process that trains with them, too.

torchrun --nproc-per-node 2 labs/composed_alone.py
"""

from functools import partial

import torch
import torch.distributed as dist
from composing import (
    CONTEXT,
    FEATURES,
    MAX_NORM,
    SAMPLES,
    SGD,
    STEPS,
    GradientClipOptimizer,
    loss_of,
    make_model,
    micro_batches_of,
    pairs,
    train_on_ranks,
)
from language_model import Transformer, draw_batch, standard_library
from memory import recompute_modules
from torch import nn
from zero import STAGES, Zero1, flatten_padded, whole
from zero_on_disk import DiskOffloadOptimizer

# ---- One process, in float64 ----------------------------------------------------------------


def alone(features, text, n) -> torch.Tensor:
    """Return the weights of one process after the same steps, each with the whole batch."""
    model = make_model(features)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = SGD(trained)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, draw_batch(text, SAMPLES * n, step, CONTEXT)).backward()
        if "clipping" in features:
            clip_alone(trained)
        optimizer.step()
    return flat_weights(model)


def clip_alone(parameters):
    norm = torch.cat([p.grad.flatten() for p in parameters]).norm()
    for p in parameters:
        p.grad *= (MAX_NORM / norm).clamp(max=1)


@torch.no_grad()
def flat_weights(model) -> torch.Tensor:
    return torch.cat([p.flatten() for p in model.parameters()])


# ---- One process that rounds to bfloat16 where the ranks do ---------------------------------


class RoundingReference:
    """A process that computes all ranks' gradients one after another and adds them as a ring does.

    units  the parameters of each unit, by name
    """

    def __init__(self, stage, features, text, n, units):
        self.features, self.text, self.n = features, text, n
        self.count, self.model = micro_batches_of(features), make_model(features)
        self.reduces_each = stage != "stage 1"  # after each micro-batch
        self.units = [[self.model.get_parameter(name) for name in names] for names in units]
        self.masters = [nn.Parameter(flat.float()) for flat in self.flat()]

    def flat(self):
        return [flatten_padded(unit, self.n).detach() for unit in self.units]

    def train(self) -> list[torch.Tensor]:
        """Take all steps; return the flat float32 masters of each unit."""
        optimizer = SGD(self.masters)
        for step in range(STEPS):
            for master, gradient in zip(self.masters, self.mean_gradients(step)):
                master.grad = gradient.float()
            if "clipping" in self.features:
                clip_alone(self.masters)
            optimizer.step()
            self.write_back()
        return [master.detach() for master in self.masters]

    def mean_gradients(self, step):
        """Return the mean gradient of each unit, in bfloat16."""
        batch = draw_batch(self.text, SAMPLES * self.n, step, CONTEXT)
        of_ranks = [list(zip(*(x[k :: self.n].chunk(self.count) for x in batch)))
                    for k in range(self.n)]  # fmt: skip
        if not self.reduces_each:
            return self.mean_of(of_ranks)
        total = self.mean_of([parts[:1] for parts in of_ranks])
        for number in range(1, self.count):
            more = self.mean_of([parts[number : number + 1] for parts in of_ranks])
            total = [a + b for a, b in zip(total, more)]
        return total

    def mean_of(self, of_ranks):
        gradients = [self.gradients(parts) for parts in of_ranks]
        return [mean_in_turn(of_unit) for of_unit in zip(*gradients)]

    def gradients(self, parts):
        self.model.zero_grad()
        for part in parts:
            (loss_of(self.model, part) / self.count).backward()
        return [flatten_padded([p.grad for p in unit], self.n) for unit in self.units]

    @torch.no_grad()
    def write_back(self):
        for master, unit in zip(self.masters, self.units):
            sizes = [p.numel() for p in unit]
            for p, part in zip(unit, master[: sum(sizes)].split(sizes)):
                p.copy_(part.view(p.shape))


def mean_in_turn(flats):
    """Return the mean over ranks, where a ring adds up chunk k from rank k + 1 on to rank k."""
    n, found = len(flats), []
    for k in range(n):
        chunks = [flats[(k + turn) % n].chunk(n)[k] for turn in range(1, n + 1)]
        so_far = chunks[0]
        for chunk in chunks[1:]:
            so_far = chunk + so_far
        found.append(so_far / n)
    return torch.cat(found)


# ---- Comparison -----------------------------------------------------------------------------


def gap(stage, features, text) -> float:
    """Return how far the weights' changes are from one process's, relative to the largest.

    With mixed precision these are the changes of this rank's masters.
    """
    from pedagogy_lib import relative_gap

    start = make_model(features)
    engine, model = train_on_ranks(stage, features, text)
    if "mixed precision" in features:
        return gap_of_masters(stage, features, text, engine, model)
    before = flat_weights(start)
    with whole(engine):
        changed = flat_weights(model) - before
    return relative_gap(changed, alone(features, text, dist.get_world_size()) - before)


def gap_of_masters(stage, features, text, engine, model) -> float:
    from pedagogy_lib import relative_gap

    names = {p: name for name, p in model.named_parameters()}
    units = [[names[p] for p in unit.parameters] for unit in engine.units.values()]
    process = RoundingReference(stage, features, text, dist.get_world_size(), units)
    before = [flat.float() for flat in process.flat()]
    found = []
    for mine, old, new in zip(engine.optimizer.masters, before, process.train()):
        was, right = (x.chunk(process.n)[dist.get_rank()] for x in (old, new))
        found.append(relative_gap(mine.detach() - was, right - was, scale=(new - old).abs().max()))
    return max(found)


def gaps(stages, combined, text) -> dict:
    """Return {(stage, features): gap} for each of these combinations in each of these stages."""
    return {(stage, features): gap(stage, features, text)
            for features in combined for stage in stages}  # fmt: skip


def is_equal(features, found) -> bool:
    """Return whether a gap is rounding: of float64, or with mixed precision one of bfloat16."""
    from pedagogy_lib import rounding

    if "mixed precision" in features:
        return found <= torch.finfo(torch.bfloat16).eps
    return found <= rounding(steps=STEPS)


def table_of(found) -> tuple[list, list]:
    """Return heads and rows of a table: the stages in which two features equal one process.

    found  {(stage, features): gap}, the largest of all ranks
    """
    equal = {}
    for (stage, features), one in found.items():
        if is_equal(features, one):
            equal.setdefault(frozenset(features), []).append(stage.removeprefix("stage "))
    rows = [
        [row, *(" ".join(equal.get(frozenset((row, head)), ["no"])) for head in FEATURES[: k + 1])]
        for k, row in enumerate(FEATURES)
    ]
    return ["", *FEATURES], [row + [""] * (len(FEATURES) + 1 - len(row)) for row in rows]


# ---- Refused combinations -------------------------------------------------------------------


def tie_across_units():
    model = Transformer(6, heads=2, context=CONTEXT, tied=True)
    return Zero1(model, SGD, [model.letters])


def two_dtypes_in_a_unit():
    model = Transformer(6, heads=2, context=CONTEXT).bfloat16()
    model.blocks[0].norm_1.float()
    return Zero1(model, SGD, list(model.blocks))


def recompute_after_frozen_layer():
    model = Transformer(6, heads=2, context=CONTEXT)
    for embedding in (model.letters, model.places):
        embedding.requires_grad_(False)
    recompute_modules(model.blocks)
    return model(torch.zeros(1, CONTEXT, dtype=torch.long))


def clip_each_parameter():
    weights = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    return DiskOffloadOptimizer(
        weights, partial(GradientClipOptimizer, make_optimizer=SGD, max_norm=1.0), "never made"
    )


REFUSED = {
    "a weight tied over two units": tie_across_units,
    "two dtypes in a unit": two_dtypes_in_a_unit,
    "recomputation behind a frozen layer": recompute_after_frozen_layer,
    "clipping inside of state on disk": clip_each_parameter,
}


def refusals() -> dict[str, str]:
    """Return {what is combined: the sentence that refuses it, "" if nothing does}."""
    found = {}
    for what, combine in REFUSED.items():
        try:
            combine()
            found[what] = ""
        except ValueError as error:
            found[what] = str(error)
    return found


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(gaps, list(STAGES), pairs()[-1:], standard_library(5_000), world_size=2)
    if run.rank == 0:
        for stage, features in run.values[0]:
            largest = max(of_rank[stage, features] for of_rank in run.values)
            told = "equals one process" if is_equal(features, largest) else f"off by {largest:.0e}"
            print(f"{stage} with {', '.join(features)}: {told}")


if __name__ == "__main__":
    main()

"""The right results, and the results of known mistakes."""

import torch.nn.functional as F

from coursekit.kit import Wrong

from .cases import BLOCKS, STEPS, Small, alone, batch_of, copies_of, copy_index, make_optimizer


def average_blocks_only(copies) -> list:
    """Return the losses of each copy if only the gradients of the blocks are averaged."""
    models = [Small().double() for _ in range(copies)]
    optimizers, losses = [make_optimizer(m.parameters()) for m in models], [[] for _ in models]
    for step in range(STEPS):
        for k, model in enumerate(models):
            model.zero_grad()
            x, y = batch_of(k, step)
            loss = F.mse_loss(model(x), y)
            loss.backward()
            losses[k].append(loss.item())
        for parameters in zip(*(model.blocks.parameters() for model in models)):
            mean = sum(p.grad for p in parameters) / copies
            for p in parameters:
                p.grad = mean.clone()
        for optimizer in optimizers:
            optimizer.step()
    return losses


def mistakes_in_losses(trial, place):
    n, k = copies_of(trial), copy_index(trial, place)
    return {
        "the losses are those of weights that never change: the optimizer steps, and holds other "
        "tensors than the model computes with. Which parameters does the model have after "
        "fully_shard?": alone(n, k, trained=())[0],
        "the blocks learn, and the rest of the model does not: the optimizer does not hold what "
        "the rest has after the whole model was sharded": alone(n, k, trained=("blocks",))[0],
        "the first and the last layer learn, and the blocks do not: the optimizer was made before "
        "the blocks were sharded, or does not hold their parameters":
            alone(n, k, trained=("first", "last"))[0],
        "each rank trains on its own batch alone: nothing averages the gradients":
            alone(n, k, follows=[k])[0],
        "the first and the last layer follow each rank's own batch: they are in no block, so the "
        "whole model has to be a unit, too": average_blocks_only(n)[k],
    }  # fmt: skip


def need_optimizer(trial):
    found = trial.collect_values("optimizer")
    if found is not None:
        what = f"it returned {found[0]}"
        raise Wrong(str(trial.case), what, "asked is the optimizer that make_optimizer gives")


def need_units(trial):
    """Raise `Wrong` unless each block is a unit, and the rest of the model one more."""
    if any(trial.collect_values("shared") or ()):
        what = "units that fully_shard has made: one of all blocks, and the model"
        why = "of a list, fully_shard makes one unit: each block is to be a unit of its own"
        raise Wrong(str(trial.case), what, why)
    for units in trial.collect_values("units") or ():
        if len(units) == BLOCKS + 1 and "the model" in units:
            continue
        what = f"units that fully_shard has made: {', '.join(units) or 'none'}"
        if units == ["the model"]:
            why = ("the losses are right, but the whole model is one unit: each forward gathers "
                   "all of it at once. Each block is to be a unit of its own")  # fmt: skip
        elif not units:
            why = "the losses are right, but nothing is sharded: each rank keeps the whole model"
        else:
            why = "each block is to be a unit, and the whole model one more, for what is left"
        raise Wrong(str(trial.case), what, why)


def share_of(place, n) -> int:
    """Return how many numbers a rank has if each parameter's rows are dealt in n equal pieces."""
    pieces = (list(p.detach().chunk(n)) for p in Small().parameters())
    return sum(piece[place].numel() for piece in pieces if place < len(piece))


def need_share(trial):
    n, total = copies_of(trial), sum(p.numel() for p in Small().parameters())
    for place, kept in enumerate(trial.collect_values("kept") or ()):
        wanted = share_of(copy_index(trial, place), n)
        if kept != wanted:
            what = f"{trial.name_of_rank(place)} keeps {kept} of {total} numbers, expected {wanted}"
            why = "the ranks of `mesh` share out the parameters, not those of the whole world"
            raise Wrong(str(trial.case), what, why)

"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.tables import tabulate

from ..shared.meshes import all_places, world_of
from .cases import batch_of, calls


def mistakes(trial, place):
    return wrong_shares(*trial.case.args, place)


@tabulate(calls)
def wrong_shares(sizes, shape, place) -> dict[str, torch.Tensor]:
    batch, at, n = batch_of(*shape), all_places(sizes)[place], world_of(sizes)
    dp = sizes["dp"]
    found = {
        "each rank has samples of its own here. But the ranks of a tp group compute one sample "
        "together, and so do the stages of a pipeline: they need the same ones. How many copies of "
        "the model are there, and which one has this rank?": batch.chunk(n)[place % n],
        "these are as many as they should be, but not those of this rank's copy. The number of "
        "the copy is the place on the axis dp: mesh.at tells it": batch.chunk(dp)[place % dp],
        "each rank has the whole batch: then all copies compute the same, and their mean is no "
        "better than one of them": batch,
        "these samples are dealt out in turns. Asked are equal parts in order: the first copy has "
        "the first part": batch[at["dp"] :: dp],
        **{
            f"this is the place along {axis}: ranks that share one copy of the model differ there, "
            "and need the same samples": batch.chunk(sizes[axis])[at[axis]]
            for axis in ("tp", "pp") if sizes[axis] > 1
        },
    }  # fmt: skip
    return found


def share(trial, place):
    return share_of(*trial.case.args, place)


@tabulate(calls)
def share_of(sizes, shape, place) -> torch.Tensor:
    at = all_places(sizes)[place]["dp"]
    size = shape[0] // sizes["dp"]
    return batch_of(*shape)[at * size : (at + 1) * size]

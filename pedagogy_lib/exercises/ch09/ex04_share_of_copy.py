"""Which samples a rank computes with, on a mesh: those of its copy of the model."""

import torch

from ..kit import At, Equals, RankExercise, World, never
from ..kit.tables import tabled
from ..kit.trials import numbers
from .meshes import SmallMesh, all_places, in_words, world_of

FINDS_A_BUG = True


def batch_of(length, *of_sample):
    return numbers(0, (length, *of_sample), torch.float64)


def take_share(answer, group, case):
    sizes, shape = case.args
    batch = batch_of(*shape)
    share = answer(batch, SmallMesh(sizes))
    return {"share": share, "changed": not batch.equal(batch_of(*shape))}


def calls() -> list[tuple]:
    """Sizes of a mesh, the shape of a batch, and each rank's place."""
    found = [(*case.args, range(world_of(case.args[0]))) for case in EXERCISE.cases]
    return [(sizes, shape, place) for sizes, shape, places in found for place in places]


def share(trial, place):
    return share_of(*trial.case.args, place)


def mistakes(trial, place):
    return wrong_shares(*trial.case.args, place)


@tabled(calls)
def share_of(sizes, shape, place) -> torch.Tensor:
    at = all_places(sizes)[place]["dp"]
    size = shape[0] // sizes["dp"]
    return batch_of(*shape)[at * size : (at + 1) * size]


@tabled(calls)
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


EXERCISE = RankExercise(
    "9.4",
    "share_of_copy",
    cases=[
        At(World(n), (sizes, shape), f", {in_words(sizes)}, {shape[0]} samples{what}")
        for n, sizes, shape, what in [
            (6, {"dp": 2, "pp": 1, "tp": 3}, (12, 3), ""),
            (6, {"dp": 2, "pp": 3, "tp": 1}, (12, 3), ""),
            (4, {"tp": 2, "pp": 1, "dp": 2}, (8, 3), ""),
            (4, {"pp": 2, "dp": 2, "tp": 1}, (8, 2, 3), " of 2 × 3 numbers"),
            (2, {"dp": 1, "pp": 1, "tp": 2}, (4,), " of one number"),
            (3, {"dp": 3, "pp": 1, "tp": 1}, (6, 3), ""),
        ]
    ],
    work=take_share,
    facts=[
        Equals("share", share, mistakes, "the share"),
        never("changed", lambda _: "the batch has changed",
              "it belongs to the caller: look at it, and leave it as it is"),
    ],
    told="ranks of one copy have the same samples, other copies have others",
    errors={
        "KeyError": "mesh.sizes and mesh.at are dicts with the keys dp, pp and tp",
        "is not subscriptable": "mesh.sizes and mesh.at are dicts: mesh.at[\"dp\"]",
    },
    hints=(
        "Which ranks have to compute with the same sample? Those of one tp group, for example. Do "
        "they, with dist.get_rank()?",
        'mesh.sizes["dp"] is the number of copies, mesh.at["dp"] the number of this rank\'s copy.',
    ),
)  # fmt: skip

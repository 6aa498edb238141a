"""The cases, and the code that runs next to the answer."""

import torch

from coursekit.kit import RankCase, World
from coursekit.kit.collective_exercise import numbers

from ..shared.meshes import SmallMesh, describe_mesh, world_of


def batch_of(length, *of_sample):
    return numbers(0, (length, *of_sample), torch.float64)


def take_share(answer, group, case):
    sizes, shape = case.args
    batch = batch_of(*shape)
    share = answer(batch, SmallMesh(sizes))
    return {"share": share, "changed": not batch.equal(batch_of(*shape))}


CASES = [
    RankCase(World(n), (sizes, shape), f", {describe_mesh(sizes)}, {shape[0]} samples{what}")
    for n, sizes, shape, what in [
        (6, {"dp": 2, "pp": 1, "tp": 3}, (12, 3), ""),
        (6, {"dp": 2, "pp": 3, "tp": 1}, (12, 3), ""),
        (4, {"tp": 2, "pp": 1, "dp": 2}, (8, 3), ""),
        (4, {"pp": 2, "dp": 2, "tp": 1}, (8, 2, 3), " of 2 × 3 numbers"),
        (2, {"dp": 1, "pp": 1, "tp": 2}, (4,), " of one number"),
        (3, {"dp": 3, "pp": 1, "tp": 1}, (6, 3), ""),
    ]
]


def calls() -> list[tuple]:
    """Return (sizes of the mesh, shape of the batch, place) for each rank of each case."""
    found = [(*case.args, range(world_of(case.args[0]))) for case in CASES]
    return [(sizes, shape, place) for sizes, shape, places in found for place in places]

"""Meshes for several exercises: the places of ranks, found by going through all of them."""

from itertools import permutations, product
from math import prod

import torch.distributed as dist

from coursekit.kit.tables import tabulate

# The meshes of all cases on ranks. Handouts have tables only for these.
TRIED_ON_RANKS = """
    dp 2 pp 1 tp 3, dp 2 pp 3 tp 1, tp 2 pp 1 dp 2, pp 2 dp 2 tp 1, dp 1 pp 1 tp 2, dp 3 pp 1
    tp 1, dp 2 pp 1 tp 1, dp 1 pp 2 tp 1, dp 1 pp 2 tp 2, dp 1 pp 3 tp 1, dp 1 pp 1 tp 3, dp 1
    pp 1 tp 1, dp 2 pp 2 tp 2, replicate 1 shard 2, replicate 2 shard 1, replicate 2 shard 2,
    replicate 3 shard 2, replicate 3 shard 1 tp 2, edp 3 ep 2, edp 2 ep 2, edp 1 ep 2, edp 2
    ep 1, ep 3 edp 2, dp 2 pp 1 tp 2, dp 2 pp 2 tp 1
"""


def meshes_tried() -> list[dict[str, int]]:
    """Return the meshes of the checks on ranks, each as {axis: ranks along it}."""
    words = [mesh.split() for mesh in TRIED_ON_RANKS.split(",")]
    return [dict(zip(mesh[::2], map(int, mesh[1::2]))) for mesh in words]


def some_axes(sizes) -> list:
    """Return each axis name, and tuples of names in any order."""
    counts = range(1, len(sizes) + 1)
    return [*sizes, *(axes for count in counts for axes in permutations(sizes, count))]


@tabulate(lambda: [(sizes,) for sizes in meshes_tried()], beside=True)
def all_places(sizes) -> list[dict[str, int]]:
    """Return the places of rank 0, rank 1, …, where the last axis changes fastest."""
    rounds = product(*(range(size) for size in sizes.values()))
    return [dict(zip(sizes, places)) for places in rounds]


@tabulate(
    lambda: [(axes, sizes) for sizes in meshes_tried() for axes in some_axes(sizes)], beside=True
)
def lists_along(axes, sizes, places=all_places) -> list[list[int]]:
    """Return the groups of ranks that have equal places on all other axes."""
    axes = (axes,) if isinstance(axes, str) else axes
    found, placed = [], places(sizes)
    for rank, at in enumerate(placed):
        for ranks in found:
            if all(placed[ranks[0]][axis] == at[axis] for axis in sizes if axis not in axes):
                ranks.append(rank)
                break
        else:
            found.append([rank])
    return found


def world_of(sizes) -> int:
    """Return the number of ranks of a mesh."""
    return prod(sizes.values())


class SmallMesh:
    """A mesh for a check: `sizes`, `at`, and a group for each axis and each tuple in `joint`.

    All ranks of the case's world have to make it together.
    """

    def __init__(self, sizes, joint=()):
        self.sizes, self.at = sizes, all_places(sizes)[dist.get_rank()]
        self.groups = {axes: self.group(axes) for axes in (*sizes, *joint)}

    def group(self, axes):
        groups = [(ranks, dist.new_group(ranks)) for ranks in lists_along(axes, self.sizes)]
        return next(group for ranks, group in groups if dist.get_rank() in ranks)

    def __getitem__(self, axes):
        return self.groups[axes]


def describe_mesh(sizes) -> str:
    """Return a mesh as text, such as `dp 2 × tp 3`."""
    return " × ".join(f"{axis} {size}" for axis, size in sizes.items())

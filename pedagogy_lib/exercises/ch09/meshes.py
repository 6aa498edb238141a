"""What the exercises on meshes share: places of ranks, found by going through all of them."""

from itertools import product
from math import prod

import torch.distributed as dist


def all_places(sizes) -> list[dict[str, int]]:
    """The places of rank 0, rank 1, …: the last axis goes round first."""
    rounds = product(*(range(size) for size in sizes.values()))
    return [dict(zip(sizes, places)) for places in rounds]


def lists_along(axes, sizes, places=all_places) -> list[list[int]]:
    """The ranks that have equal places on all other axes."""
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
    return prod(sizes.values())


def first_axis_fastest(sizes) -> list[dict[str, int]]:
    """The mistake to count from the other side."""
    turned = all_places(dict(reversed(sizes.items())))
    return [{axis: at[axis] for axis in sizes} for at in turned]


class SmallMesh:
    """A mesh for a check: `sizes`, `at`, and a group for each axis, and for all that are asked for.

    Made in a world of its own, by all of its ranks.
    """

    def __init__(self, sizes, joint=()):
        self.sizes, self.at = sizes, all_places(sizes)[dist.get_rank()]
        self.groups = {axes: self.group(axes) for axes in (*sizes, *joint)}

    def group(self, axes):
        groups = [(ranks, dist.new_group(ranks)) for ranks in lists_along(axes, self.sizes)]
        return next(group for ranks, group in groups if dist.get_rank() in ranks)

    def __getitem__(self, axes):
        return self.groups[axes]


def in_words(sizes) -> str:
    return " × ".join(f"{axis} {size}" for axis, size in sizes.items())

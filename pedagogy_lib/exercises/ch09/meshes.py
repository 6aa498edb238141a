"""What the exercises on meshes share: places of ranks, found by going through all of them."""

from itertools import permutations, product
from math import prod

import torch.distributed as dist

from ...course.checking import exercises_of
from ..kit.tables import tabled

TRIED_ON_RANKS = ("9.4", "9.5", "9.6", "9.7", "9.9", "9.22")


def meshes_tried() -> list[dict[str, int]]:
    """Those of the checks on ranks."""
    known = exercises_of("9")
    return [case.args[0] for number in TRIED_ON_RANKS for case in known[number].cases]


def some_axes(sizes) -> list:
    """One name, or several in any order."""
    counts = range(1, len(sizes) + 1)
    return [*sizes, *(axes for count in counts for axes in permutations(sizes, count))]


@tabled(lambda: [(sizes,) for sizes in meshes_tried()], beside=True)
def all_places(sizes) -> list[dict[str, int]]:
    """The places of rank 0, rank 1, …: the last axis goes round first."""
    rounds = product(*(range(size) for size in sizes.values()))
    return [dict(zip(sizes, places)) for places in rounds]


@tabled(
    lambda: [(axes, sizes) for sizes in meshes_tried() for axes in some_axes(sizes)], beside=True
)
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

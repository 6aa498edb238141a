# Built from chapters/ch09_three_dimensions/labs/meshes.py by `make build`. Write your answers here.
"""Meshes: ranks in rows and columns, and the groups that communicate along each axis.

torchrun --nproc-per-node 8 labs/meshes.py
"""

from math import prod

import torch
import torch.distributed as dist

IGNORED = -100  # what F.cross_entropy leaves out

# ---- A rank's coordinates and groups --------------------------------------------------------


def coordinates(rank, sizes) -> dict[str, int]:
    """Exercise 9.1. Return a rank's place on each axis of a mesh.

    The places are the digits of the rank's number: the place on the last axis changes from each
    rank to the next.

    sizes    {axis: number of ranks}, the axis that changes fastest last
    Returns  {axis: place}, from 0 on
    """
    ...  # your code here


def groups_along(axes, sizes) -> list[list[int]]:
    """Exercise 9.2. List the groups of ranks that differ on these axes and no other.

    axes     the name of an axis, or a tuple of several
    Returns  the ranks of each group, ascending; the groups in the order of their first ranks
    """
    ...  # your code here


def my_group(groups, name):
    """Create a process group for each list of ranks; return this rank's group, or None.

    All ranks of the world have to call this, with the same lists in the same order: see exercise
    9.3.

    groups  lists of ranks; a rank is in at most one of them
    name    the purpose of the groups, such as "tp": their `group_desc`
    """
    mine = None
    for ranks in groups:
        group = dist.new_group(ranks, group_desc=name)
        if dist.get_rank() in ranks:
            mine = group
    return mine


class Mesh:
    """A mesh with this rank's places on its axes, and its groups: mesh["tp"], mesh["dp", "cp"].

    sizes   {axis: number of ranks}, the axis that changes fastest last
    joint   tuples of axes that need a common group
    at      {axis: this rank's place}
    Raises  ValueError, on all ranks, if the product of the sizes is not the world size
    """

    def __init__(self, sizes, joint=()):
        ranks, world_size = prod(sizes.values()), dist.get_world_size()
        if ranks != world_size:
            product = " × ".join(f"{axis} {size}" for axis, size in sizes.items())
            raise ValueError(f"{product} makes {ranks} ranks, and the world has {world_size}")
        self.sizes, self.at = sizes, coordinates(dist.get_rank(), sizes)
        self.groups = {
            axes: my_group(groups_along(axes, sizes), name_of(axes)) for axes in (*sizes, *joint)
        }

    def __getitem__(self, axes):
        return self.groups[axes]


def name_of(axes) -> str:
    return axes if isinstance(axes, str) else " × ".join(axes)


def refuse_ignored(targets, shares):
    """Raise ValueError if targets are ignored where equal shares of a batch count equally."""
    if shares > 1 and (targets == IGNORED).any():
        raise ValueError(
            f"some targets are {IGNORED}, but all {shares} shares of the batch would count the "
            "same: take a batch without them"
        )


# ---- The program ----------------------------------------------------------------------------


def halves(world_size) -> dict[str, int]:
    """Return sizes of "dp", "pp" and "tp": 2 for tp and then pp, as long as 2 divides the rest."""
    sizes = {"dp": world_size, "pp": 1, "tp": 1}
    for axis in ("tp", "pp"):
        if sizes["dp"] % 2 == 0:
            sizes = sizes | {"dp": sizes["dp"] // 2, axis: 2}
    return sizes


def program() -> str:
    """Describe this rank's places, and the sum of the ranks in each of its groups."""
    mesh, told = Mesh(halves(dist.get_world_size())), []
    for axis, place in mesh.at.items():
        total = torch.tensor(float(dist.get_rank()))
        dist.all_reduce(total, group=mesh[axis])
        told.append(f"{axis} {place}, sum of the group's ranks {total:g}")
    return "; ".join(told)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, world_size=8)
    if run.rank == 0:
        for rank, told in enumerate(run.values):
            print(f"rank {rank}: {told}")


if __name__ == "__main__":
    main()

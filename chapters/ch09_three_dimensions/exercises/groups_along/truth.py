"""The right results, and the results of known mistakes."""

from ..shared.meshes import all_places, lists_along, world_of
from ..shared.meshes_truth import first_axis_fastest


def other_axes(axes, sizes):
    axes = (axes,) if isinstance(axes, str) else axes
    return tuple(axis for axis in sizes if axis not in axes)


def runs(axes, sizes):
    """Return groups of neighbours, as is right along the last axis."""
    axes = (axes,) if isinstance(axes, str) else axes
    size = world_of({axis: sizes[axis] for axis in axes})
    return [list(range(first, first + size)) for first in range(0, world_of(sizes), size)]


def far_apart(axes, sizes):
    """Return groups with the number of groups as stride, as is right along the first axis."""
    axes = (axes,) if isinstance(axes, str) else axes
    count = world_of(sizes) // world_of({axis: sizes[axis] for axis in axes})
    return [list(range(first, world_of(sizes), count)) for first in range(count)]


def letters(axes, sizes):
    """Search for each axis's name in `axes`, where letters match if `axes` is a single name."""
    return lists_along([axis for axis in sizes if axis in axes], sizes)


def beginnings(axes, sizes):
    axes = (axes,) if isinstance(axes, str) else axes
    return lists_along([a for a in sizes if any(a.startswith(name) for name in axes)], sizes)


def first_name_alone(axes, sizes):
    return lists_along(axes if isinstance(axes, str) else axes[0], sizes)


def same_place(axes, sizes):
    """Return groups of ranks that are equal along the axes: the complement."""
    return lists_along(other_axes(axes, sizes), sizes)


def last_group_missing(axes, sizes):
    return lists_along(axes, sizes)[:-1]


def reverse_groups(axes, sizes):
    return [ranks[::-1] for ranks in lists_along(axes, sizes)]


def list_group_per_rank(axes, sizes):
    """Return a group for each rank, so that a group is repeated for each of its members."""
    lists = lists_along(axes, sizes)
    return [next(ranks for ranks in lists if rank in ranks) for rank in range(world_of(sizes))]


def sort_groups_by_places(axes, sizes):
    """Return the groups, sorted by their places on the other axes, from last to first."""
    lists, names = lists_along(axes, sizes), other_axes(axes, sizes)
    places = all_places(sizes)
    return sorted(lists, key=lambda ranks: [places[ranks[0]][axis] for axis in reversed(names)])


truth = lists_along

MISTAKES = [
    (
        'where `axes` is one name, `axis in axes` looks for letters, and "p" is in "dp". Make '
        "a tuple of that one name first.",
        letters,
    ),
    (
        "here the axes are counted from the other side: the last one of `sizes` changes from "
        "each rank to the next. coordinates() knows that.",
        lambda axes, sizes: lists_along(axes, sizes, first_axis_fastest),
    ),
    (
        "these are neighbours. That is right along the last axis; along others there are ranks "
        "between the members of a group.",
        runs,
    ),
    (
        "these are as far apart as they can be. That is right along the first axis, not along "
        "others.",
        far_apart,
    ),
    (
        "`axes` may be a tuple of several names: ranks of one group may then differ on each of "
        "them. Here only its first name counts.",
        first_name_alone,
    ),
    (
        "`axes` may be a tuple of any number of names. Here only two of them count.",
        lambda axes, sizes: lists_along(axes if isinstance(axes, str) else axes[:2], sizes),
    ),
    (
        "a name is looked for in the beginnings of other names: compare whole names.",
        beginnings,
    ),
    (
        "these ranks have the same place on `axes`, and differ on the others. It is the other "
        "way round: they differ on `axes` alone.",
        same_place,
    ),
    ("one group is missing: every rank is in exactly one.", last_group_missing),
    ("the ranks of a group come in ascending order.", reverse_groups),
    (
        "each group comes several times: once for each of its members. Once is enough.",
        list_group_per_rank,
    ),
    (
        "the groups are right, but not their order: the one with the smallest first rank comes "
        "first, and so on.",
        sort_groups_by_places,
    ),
]

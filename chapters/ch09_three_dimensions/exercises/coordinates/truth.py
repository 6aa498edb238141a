"""The right results, and the results of known mistakes."""

from math import prod

from ..shared.meshes import all_places
from ..shared.meshes_truth import first_axis_fastest


def axis_stride(axis, sizes) -> int:
    """Return the number of ranks in one step along this axis."""
    names = list(sizes)
    return prod(sizes[name] for name in names[names.index(axis) + 1 :])


def place_by(formula):
    """Return a function that computes each axis's place by formula(rank, stride, size)."""
    return lambda rank, sizes: {
        axis: formula(rank, axis_stride(axis, sizes), size) for axis, size in sizes.items()
    }


def divide_by_next_size(rank, sizes):
    """Divide by the size of the next axis alone, as is right for two axes."""
    names = list(sizes)
    strides = [sizes[name] for name in names[1:]] + [1]
    return {name: rank // stride % sizes[name] for name, stride in zip(names, strides)}


def count_from_one(rank, sizes):
    return {axis: place + 1 for axis, place in all_places(sizes)[rank].items()}


def sort_axes_by_size(rank, sizes):
    """Return places as if the largest axis changed slowest, whatever its position."""
    ordered = dict(sorted(sizes.items(), key=lambda item: -item[1]))
    return {axis: all_places(ordered)[rank][axis] for axis in sizes}


def truth(rank, sizes):
    return all_places(sizes)[rank]


MISTAKES = [
    (
        "here the first axis changes fastest. It is the last one of `sizes` that changes from "
        "each rank to the next.",
        lambda rank, sizes: first_axis_fastest(sizes)[rank],
    ),
    (
        "a place is at least 0 and less than the size of its axis: what is left when all full "
        "rounds of it are taken away, by % size.",
        place_by(lambda rank, stride, size: rank // stride),
    ),
    (
        "one step along an axis is as many ranks as all axes after it have together: divide by "
        "that first, by //, and then take the rest.",
        place_by(lambda rank, stride, size: rank % size),
    ),
    (
        "one step along an axis is the product of the sizes of all axes after it, not the size "
        "of the next one alone.",
        divide_by_next_size,
    ),
    (
        "a step along an axis does not count the size of this axis itself: only those of the "
        "axes after it.",
        place_by(lambda rank, stride, size: rank // (stride * size) % size),
    ),
    ("places are counted from 0, as ranks are.", count_from_one),
    (
        "the order of the axes is that of `sizes`; how large they are does not matter.",
        sort_axes_by_size,
    ),
    (
        "a place is a whole number: divide by //, not by /.",
        place_by(lambda rank, stride, size: rank / stride % size),
    ),
]

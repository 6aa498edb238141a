"""The place of a rank on each axis of a mesh. The truth counts through all ranks."""

from math import prod

from ..kit import Formula
from .meshes import all_places, first_axis_fastest

KEYS = "the result is a dict that has a place for each axis of `sizes`, and no other key"


def after(axis, sizes) -> int:
    """The ranks of which one step along this axis consists."""
    names = list(sizes)
    return prod(sizes[name] for name in names[names.index(axis) + 1 :])


def place_by(formula):
    """A function that takes the place on each axis from a formula of rank, stride and size."""
    return lambda rank, sizes: {
        axis: formula(rank, after(axis, sizes), size) for axis, size in sizes.items()
    }


def by_neighbours_size(rank, sizes):
    """Divides by the size of the next axis alone, as is right for two axes."""
    names = list(sizes)
    strides = [sizes[name] for name in names[1:]] + [1]
    return {name: rank // stride % sizes[name] for name, stride in zip(names, strides)}


def from_one(rank, sizes):
    return {axis: place + 1 for axis, place in all_places(sizes)[rank].items()}


def in_order_of_size(rank, sizes):
    """As if the largest axis changed last, wherever it stands."""
    ordered = dict(sorted(sizes.items(), key=lambda item: -item[1]))
    return {axis: all_places(ordered)[rank][axis] for axis in sizes}


EXERCISE = Formula(
    "9.1",
    "coordinates",
    lab="meshes",
    cases={
        "rank 5 of dp 2, pp 2, tp 2": [(5, {"dp": 2, "pp": 2, "tp": 2})],
        "rank 17 of dp 2, pp 3, tp 4": [(17, {"dp": 2, "pp": 3, "tp": 4})],
        "all ranks of pp 3, tp 2": [(rank, {"pp": 3, "tp": 2}) for rank in range(6)],
        "all ranks of tp 2, dp 3, pp 2": [
            (rank, {"tp": 2, "dp": 3, "pp": 2}) for rank in range(12)
        ],
        "an axis of one rank": [(rank, {"dp": 2, "pp": 1, "tp": 3}) for rank in range(6)],
        "one axis": [(rank, {"dp": 4}) for rank in range(4)],
        "four axes": [(rank, {"dp": 2, "pp": 2, "cp": 3, "tp": 2}) for rank in (0, 7, 13, 22)],
    },
    truth=lambda rank, sizes: all_places(sizes)[rank],
    told=lambda calls, values: ", ".join(
        " ".join(str(value[axis]) for axis in sizes) for (_, sizes), value in zip(calls, values[:6])
    ),
    mistakes=[
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
            by_neighbours_size,
        ),
        (
            "a step along an axis does not count the size of this axis itself: only those of the "
            "axes after it.",
            place_by(lambda rank, stride, size: rank // (stride * size) % size),
        ),
        ("places are counted from 0, as ranks are.", from_one),
        (
            "the order of the axes is that of `sizes`; how large they are does not matter.",
            in_order_of_size,
        ),
        (
            "a place is a whole number: divide by //, not by /.",
            place_by(lambda rank, stride, size: rank / stride % size),
        ),
    ],
    errors={
        "not reversible": "reversed() takes a list: list(sizes) has the names in their order",
        "division or modulo by zero": "no axis has size 0: which number do you divide by?",
        "dictionary changed size": "a dict must not change while one goes through it: fill a new "
        "one",
    },
    shape=KEYS,
    whole="places are whole numbers",
    hints=(
        "Take sizes dp 2, pp 3, tp 4. How many ranks further is one step along tp? Along pp? Along "
        "dp?",
        "Go through the axes from the last to the first: rank % size is the place there, and "
        "rank // size is what is left for the axes before. divmod(rank, size) gives both.",
    ),
)

"""The right results, and the results of known mistakes."""

import torch

from ..reduce_gradients.cases import part_of
from ..shared.units_in_memory import SHAPES, values_at

NO_DATA = "a parameter cannot be without `.data`: give it a tensor without elements"

NOTHING_TO_SEND = "nothing has to travel: everybody gives up memory, and keeps the shard"


def shard_at(trial, place) -> torch.Tensor:
    """Return the shard, which a call must not change: this rank's part of its initial numbers."""
    parts = values_at(place, *trial.case.args, SHAPES)
    return part_of(torch.cat([part.flatten() for part in parts]), trial.n, place)


def why_left(trial, place) -> str:
    if trial[place].left[1]:
        return (
            "nothing is freed. Memory goes when its storage is resized, or when nobody has a view "
            "into it any more: here the chunks and autograd have some"
        )
    return (
        "the parameters have let go of it, but flat, its chunks and autograd have not: a storage "
        "lives as long as any view into it. To be resized is flat's: a parameter that has got "
        "another `.data` has another storage, too"
    )


def why_whole(trial, place) -> str:
    before = [list(shape) for shape in SHAPES]
    if not all(shape in before for shape in trial[place].whole) or trial[place].whole.count([]) > 1:
        return (
            "they have elements. Without elements is a shape with a 0 in it; the empty one, (), is "
            "that of a single number"
        )
    return (
        "its memory is gone, and it looks as before: whoever uses it by mistake reads memory that "
        "is not there, and the process dies without a word. Assign to `.data` something without "
        "elements; resizing or cutting what p.data returns does nothing to the parameter"
    )

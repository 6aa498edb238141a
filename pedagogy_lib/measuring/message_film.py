"""What messages do to a tensor on one rank, message by message."""

import contextlib
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from .replaced_calls import replaced


@dataclass
class Film:
    """What became of a tensor on one rank.

    frames  the tensor flattened to a list: when each message began to leave, and at the end
    moves   for each message the element of the tensor that it began with; None if it was no part
    """

    frames: list[list[float]] = field(default_factory=list)
    moves: list[int | None] = field(default_factory=list)


@contextlib.contextmanager
def film(x: torch.Tensor):
    """Inside of a rank: `with film(x) as seen:` notes in a `Film` what messages do to `x`."""
    seen, real = Film(), dist.isend

    def isend(tensor, *args, **kwargs):
        seen.frames.append(x.flatten().tolist())
        seen.moves.append(place_in(x, tensor))
        return real(tensor, *args, **kwargs)

    with replaced(isend=isend):
        yield seen
    seen.frames.append(x.flatten().tolist())


def place_in(whole, part) -> int | None:
    """The element of `whole` that its view `part` begins with; None if it is no view of it."""
    if part.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr():
        return None
    return part.storage_offset() - whole.storage_offset()

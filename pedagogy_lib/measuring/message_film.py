"""A record of a tensor on one rank, message by message."""

import contextlib
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from .replaced_calls import replace_calls


@dataclass
class Film:
    """The states of a tensor on one rank, and the messages that the rank sent.

    frames  the tensor flattened to a list, when each message began to leave and at the end; a
            received message counts from the end of its `wait`
    moves   for each message, the index of the tensor's element with which it began; None if it was
            no part of the tensor
    lengths, peers  for each message, its number of elements and the rank that it was sent to
    """

    frames: list[list[float]] = field(default_factory=list)
    moves: list[int | None] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    peers: list[int] = field(default_factory=list)


@contextlib.contextmanager
def film(x: torch.Tensor):
    """Record in a `Film` what messages do to `x`, inside a rank: `with film(x) as seen:`.

    The film has one frame when each message of this rank begins to leave, and one at the end; it is
    complete after the block. Only send, recv, isend and irecv count, not collectives.
    x  a contiguous tensor; messages are contiguous views of it, or other tensors. This is not
       checked: `moves` counts positions in memory, which are indices of elements only then
    """
    seen, coming, real_isend, real_irecv = Film(), {}, dist.isend, dist.irecv

    def frame():
        elements = x.flatten().tolist()
        for begin, before in coming.values():
            elements[begin : begin + len(before)] = before
        seen.frames.append(elements)

    def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
        frame()
        seen.moves.append(place_in(x, tensor))
        seen.lengths.append(tensor.numel())
        seen.peers.append(dst if group_dst is None else find_global_rank(group, group_dst))
        return real_isend(tensor, dst, group, tag, group_dst)

    def irecv(tensor, src=None, group=None, tag=0, group_src=None):
        begin, number = place_in(x, tensor), object()
        if begin is not None:
            coming[number] = begin, tensor.flatten().tolist()
        work = real_irecv(tensor, src, group, tag, group_src)
        return RecvWork(work, ended=lambda: coming.pop(number, None))

    with replace_calls(isend=isend, irecv=irecv):
        yield seen
    frame()


class RecvWork:
    """The request of an irecv; a fast sender's data may be in the tensor long before its `wait`."""

    def __init__(self, work, ended):
        self.work, self.ended = work, ended

    def wait(self, *timeout):
        answer = self.work.wait(*timeout)
        self.ended()
        return answer

    def __getattr__(self, name):
        return getattr(self.work, name)


def find_global_rank(group, place) -> int:
    return place if group is None else dist.get_global_rank(group, place)


def place_in(whole, part) -> int | None:
    """Return the index in `whole` at which its view `part` begins; None if it is no view of it."""
    if part.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr():
        return None
    return part.storage_offset() - whole.storage_offset()

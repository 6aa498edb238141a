"""A unit whose memory is freed and refilled, and its parts that last: for dispose and gather."""

from math import prod

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from coursekit.kit import Rejection
from coursekit.kit.collective_exercise import numbers
from pedagogy_lib.basics.torch_private import is_in_storage

SHAPES = [(2, 3), (), (4,)]  # 11 elements: 2, 3 or 4 ranks need padding


def values_at(place, dtype, shapes) -> list[torch.Tensor]:
    """Return the values of a unit's parameters, which differ on each rank."""
    return [numbers(place, shape, dtype, salt) for salt, shape in enumerate(shapes)]


def length_of_shard(n, shapes) -> int:
    return -(-sum(map(prod, shapes)) // n)


class UnitProbe:
    """A unit of the lab, and its state before a call of the answer.

    storage  storage of its flat tensor
    product  result of an operation that has saved a view of the first parameter for its backward
    """

    def __init__(self, answer, group, dtype, shapes=SHAPES):
        values = map(nn.Parameter, values_at(dist.get_rank(group), dtype, shapes))
        self.unit = answer.lab.Unit(values, group, alone=True)
        self.storage, self.shard = self.unit.flat.untyped_storage(), self.unit.shard
        self.x = torch.ones(1, shapes[0][1], dtype=dtype, requires_grad=True)
        self.product = F.linear(self.x, self.unit.parameters[0]).sum()

    def resize(self, elements):
        self.storage.resize_(elements * self.shard.itemsize)

    def look(self) -> dict:
        """Return the state of flat and shard after a call."""
        flat, shard = self.unit.flat, self.unit.shard
        if not isinstance(flat, torch.Tensor):
            raise Rejection(f"unit.flat is {flat!r:.40}", FLAT_IS_GONE)
        if not is_in_storage(flat, self.storage):
            what = "unit.flat has another storage now; the one before has "
            raise Rejection(f"{what}{self.storage.nbytes()} bytes", NEW_STORAGE)
        is_lost = shard.untyped_storage().nbytes() < self.shard.nbytes or not shard.numel()
        return {
            "replaced": shard is not self.shard,
            "inside": is_in_storage(shard, self.storage),
            "lost": is_lost,
            "shard": None if is_lost else shard.detach().clone(),
        }

    def slope(self):
        """Return the gradient that a backward finds in the saved view: the sum of the rows."""
        return torch.autograd.grad(self.product, self.x)[0].flatten()


FLAT_IS_GONE = (
    "the unit's flat tensor itself is to stay: chunks are views into it, and gather() and "
    "dispose() change its memory alone"
)

NEW_STORAGE = (
    "the chunks, and what autograd has saved, are views into the storage that was there: they keep "
    "it, and never see a new one. flat stays the tensor that it is; its storage is resized"
)

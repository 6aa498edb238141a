"""A linear layer, whole and in parts, and what each rank's part of it has to look like."""

from dataclasses import dataclass

import torch
from torch import nn

from ...basics.closeness import close
from ..kit.on_ranks import IN_A_GROUP
from ..kit.one_world import Case
from ..kit.refused import Refused
from ..kit.trials import numbers
from .ex01_cut import span, strip


@dataclass(frozen=True)
class Kind:
    """One of both layers: along which dim each tensor is cut; None if all ranks have all of it.

    way  what the constructor takes to go into the parallel region, or out of it
    """

    way: str
    y: int | None
    x: int | None
    weight: int
    bias: int | None


KINDS = {
    "ColumnLinear": Kind("enter", y=-1, x=None, weight=0, bias=0),
    "RowLinear": Kind("leave", y=None, x=-1, weight=1, bias=None),
}


@dataclass(frozen=True)
class Layer(Case):
    """What a layer is tried on.

    leading  dims of x before the last one
    length   of the dim that is cut; the other one has 5
    frozen   parameters without a gradient
    own      whether it gets an `enter` or `leave` that notes its calls
    """

    leading: tuple[int, ...] = (2, 3)
    length: int = 7
    unit: int = 1
    has_bias: bool = True
    frozen: tuple[str, ...] = ()
    own: bool = False

    def part(self, x, dim, rank, unit=None):
        """A rank's part of a tensor; all of it if dim is None."""
        unit = unit or self.unit
        return x if dim is None else strip(x, dim, *span(x.shape[dim], *self.seat(rank), unit))

    def size(self, rank) -> int:
        """How long a rank's part is."""
        return span(self.length, *self.seat(rank), self.unit)[1]

    def linear(self, kind):
        """The whole layer, the same on all ranks."""
        inputs, outputs = (5, self.length) if kind.weight == 0 else (self.length, 5)
        layer = nn.Linear(inputs, outputs, bias=self.has_bias, dtype=torch.float64)
        for salt, parameter in enumerate(layer.parameters()):
            parameter.data.copy_(numbers(7, parameter.shape, torch.float64, salt) - 4)
        for name in self.frozen:
            getattr(layer, name).requires_grad_(False)
        return layer

    def around(self, kind):
        """All of x, and the gradient of all of y."""
        linear = self.linear(kind)
        shapes = [(*self.leading, size) for size in (linear.in_features, linear.out_features)]
        return [numbers(8, shape, torch.float64, salt) - 4 for salt, shape in enumerate(shapes)]


# ---- A rank's parameters ---------------------------------------------------------------------


def need_parameters(layer, kind, case, rank):
    """Raise `Refused` unless the layer has the parameters that it should."""
    whole, got = dict(case.linear(kind).named_parameters()), dict(layer.named_parameters())
    if set(got) != set(whole):
        what = f"its parameters are {', '.join(got) or 'none'}; expected {', '.join(whole)}"
        raise Refused(what, why_names(layer, got, whole))
    if getattr(layer, "bias", 0) is not got.get("bias"):
        raise Refused("it has no attribute `bias`", "without a bias it is None, as in nn.Linear")
    for name, parameter in whole.items():
        need_parameter(name, got[name], parameter, getattr(kind, name), case, rank)


def why_names(layer, got, whole) -> str:
    tensors = {name for name in whole if isinstance(getattr(layer, name, None), torch.Tensor)}
    if tensors - set(got):
        return "a plain tensor is not trained: it is to be a nn.Parameter. part_of makes one"
    if any("." in name for name in got):
        return (
            "the whole layer is kept as well: no memory is gained. Keep this rank's part alone, as "
            "self.weight and self.bias"
        )
    if "bias" in set(whole) - set(got):
        return "every rank has a parameter for the bias: without it there is nothing to train"
    return "they are called as in nn.Linear: self.weight, and self.bias, which may be None"


def need_parameter(name, got, whole, dim, case, rank):
    wanted = case.part(whole.detach(), dim, rank)
    if got.shape != wanted.shape:
        what = f"{name} has shape {list(got.shape)}, expected {list(wanted.shape)}"
        raise Refused(what, why_shape(got, whole, dim, case, rank))
    if not close(got.detach(), wanted):
        what = f"the numbers in {name} are not those of this rank's part"
        raise Refused(what, why_values(name, got.detach(), wanted, case, rank))
    if got.requires_grad != whole.requires_grad:
        raise Refused(f"{name}.requires_grad is {got.requires_grad}", FROZEN)
    if getattr(got, "cut_dim", None) != dim:
        what = f"{name}.cut_dim is {getattr(got, 'cut_dim', 'missing')}, expected {dim}"
        raise Refused(what, NOT_CUT if dim is None else PART_OF)
    if got.untyped_storage().nbytes() > wanted.numel() * wanted.itemsize:
        kept = got.untyped_storage().nbytes()
        raise Refused(f"{name} is a view: it keeps {kept} bytes", VIEW)


FROZEN = "the part of a frozen parameter is frozen, and of any other it is not: part_of sees to it"
NOT_CUT = "whoever reads it takes this for a part, and a whole bias is on every rank"
PART_OF = "part_of notes how the whole was cut: without that, whole() takes a part for all of it"
VIEW = "all of the whole keeps its memory. cut(), which part_of calls, copies the part"


def why_shape(got, whole, dim, case, rank) -> str:
    def has(x):
        return x.shape == got.shape

    if has(whole):
        return "this is all of it: each rank is to have its part alone"
    if dim is None:
        return (
            "a row layer's bias is whole: it is added to the output, after the sum, and that is "
            "the same on all ranks"
        )
    if has(case.part(whole, dim, rank, unit=1)):
        return "`unit` is not handed on: what belongs together is torn apart"
    if whole.dim() == 2 and has(case.part(whole, 1 - dim, rank)):
        return (
            "this is cut along the other dim. nn.Linear stores A transposed, (outputs, inputs): "
            "A's columns are its rows, dim 0, and A's rows its columns, dim 1"
        )
    if whole.dim() == 2 and has(case.part(whole, dim, rank).T):
        return "transposed: the weight stays as nn.Linear stores it, (outputs, inputs)"
    return IN_A_GROUP if case.in_groups else ""


def why_values(name, got, wanted, case, rank) -> str:
    n = case.seat(rank)[1]
    if name == "bias" and close(got, wanted / n):
        return (
            "1/n of the bias on every rank gives the right sum, but this is no longer the layer's "
            "bias: it would be trained n times too slowly, and be wrong in a checkpoint"
        )
    if name == "bias" and not got.any():
        return (
            "it is zero: the bias would be on one rank alone, and all others would train another "
            "one. Every rank has all of it, and adds it after the sum"
        )
    return f"see whether these are another rank's numbers, or in another order: {name} is cut once"

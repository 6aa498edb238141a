"""Parts of a linear layer, compared with nn.Linear: exercises ColumnLinear and RowLinear."""

import gc
import weakref
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from coursekit.kit import RankCase
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.forward_backward import run_both_ways

from ..cut.cases import span, strip


@dataclass(frozen=True)
class Layer(RankCase):
    """The inputs on which a layer is tried.

    leading  dims of x before the last one
    length   size of the dim that is cut; the other dim has 5
    frozen   names of parameters that need no gradient
    own      whether the layer gets an `enter` or `leave` that notes its calls
    """

    leading: tuple[int, ...] = (2, 3)
    length: int = 7
    together: int = 1
    has_bias: bool = True
    frozen: tuple[str, ...] = ()
    own: bool = True

    def whole(self, dims):
        """Return the layer, x and the slope of y, which are the same on all ranks."""
        sizes = (5, self.length) if dims["x"] is None else (self.length, 5)
        layer = nn.Linear(*sizes, bias=self.has_bias, dtype=torch.float64)
        for salt, parameter in enumerate(layer.parameters()):
            parameter.data.copy_(numbers(7, parameter.shape, torch.float64, salt) - 11 / 3)
        for name in self.frozen:
            getattr(layer, name).requires_grad_(False)
        shapes = [(*self.leading, size) for size in sizes]
        return layer, *(numbers(8, s, torch.float64, salt) - 4 for salt, s in enumerate(shapes))


def parts(dims, place, n, tensors, together) -> dict:
    """Return a rank's part of each tensor, and all of those that are not cut."""
    ends = lambda name, x: span(x.shape[dims[name]], place, n, together)  # noqa: E731
    return {
        name: x if x is None or dims[name] is None else strip(x, dims[name], *ends(name, x))
        for name, x in tensors.items()
    }


def layer_on_rank(dims, answer, group, case):
    way, ways = "enter" if dims["x"] is None else "leave", []
    mine = partial(
        parts, dims, dist.get_rank(group), dist.get_world_size(group), together=case.together
    )

    def note_call(x, group=None):
        ways.append(way)
        return getattr(answer.lab, way)(x, group)

    options = {way: note_call} if case.own else {}
    options |= {"together": case.together} if case.together > 1 else {}
    given, (whole, all_x, slope) = case.whole(dims)[0], case.whole(dims)
    layer, weight = answer(given, group, **options), weakref.ref(given.weight)
    del given
    gc.collect()  # frees modules that refer to each other
    parameters = {name: p.detach() for name, p in whole.named_parameters()}
    has, part = mine({"x": all_x, "y": slope}), mine(parameters)
    got = dict(layer.named_parameters())
    tensors = {name for name in parameters if isinstance(getattr(layer, name, None), torch.Tensor)}
    found = {"names": (list(got), tensors), "is_kept": weight() is not None}
    fits = got.keys() == parameters.keys()
    if fits:
        found |= properties(got, whole, dims)
        fits = all(got[name].shape == wanted.shape for name, wanted in part.items())
    all_fit = torch.tensor(float(fits))
    dist.all_reduce(all_fit, dist.ReduceOp.MIN, group)  # so that no rank waits for others in vain
    if all_fit:
        x = has["x"].clone().requires_grad_()
        found |= run_both_ways(lambda: layer(x), {"x": x} | got, has["y"])
        found |= {"ways": len(ways)} if case.own else {}
    return found


def properties(parameters, whole, dims) -> dict:
    """Return a layer's parameters, and their faults other than wrong numbers."""
    dim_of = lambda p: getattr(p, "cut_dim", None)  # noqa: E731
    kept = {name: p.untyped_storage().nbytes() for name, p in parameters.items()}
    return {
        "parameters": {name: p.detach().clone() for name, p in parameters.items()},
        "unlike": [
            f"{name}.requires_grad is {p.requires_grad}" for name, p in parameters.items()
            if p.requires_grad != getattr(whole, name).requires_grad
        ],
        "uncut": [
            f"{name}.cut_dim is {dim_of(p)}, expected {dims[name]}"
            for name, p in parameters.items()
            if (dim_of(p) if dim_of(p) is None else dim_of(p) % p.dim()) != dims[name]
        ],
        "views": [
            f"{name} is a view: it keeps {kept[name]} bytes" for name, p in parameters.items()
            if kept[name] > p.nbytes
        ],
    }  # fmt: skip

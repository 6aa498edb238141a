"""Linear layers of which each rank has a part: how 7.4 and 7.5 are tried, against nn.Linear."""

from dataclasses import dataclass
from functools import partial
from math import prod
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import nn

from ..kit import At, Equals, Holds, RankExercise, World, never
from ..kit.trials import numbers
from .both_ways import ALL_KNOWN, Traffic, both_ways, right, ring_bytes
from .ex01_cut import span, strip

# Along which dim each tensor is cut, y as its slope; None if all ranks have all of it.
COLUMNS = {"x": None, "slope": -1, "weight": 0, "bias": 0}
ROWS = {"x": -1, "slope": None, "weight": 1, "bias": None}


def by_columns(dims) -> bool:
    return dims["x"] is None


@dataclass(frozen=True)
class Layer(At):
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
    own: bool = True


CASES = [
    Layer(World(3), what=", equal parts", length=6, own=False),
    Layer(World(3), what=", no bias, x of one dim", has_bias=False, leading=()),
    Layer(World(3), what=", units of 2", length=8, unit=2),
    Layer(World(3), what=", frozen weight", frozen=("weight",)),
    Layer(World(3, (1, 2))),
]


def linear(dims, case):
    """The whole layer, the same on all ranks."""
    sizes = (5, case.length) if by_columns(dims) else (case.length, 5)
    layer = nn.Linear(*sizes, bias=case.has_bias, dtype=torch.float64)
    for salt, parameter in enumerate(layer.parameters()):
        parameter.data.copy_(numbers(7, parameter.shape, torch.float64, salt) - 11 / 3)
    for name in case.frozen:
        getattr(layer, name).requires_grad_(False)
    return layer


def whole(dims, case) -> dict:
    """x, the slope of y, and the parameters."""
    layer = linear(dims, case)
    shapes = ((*case.leading, size) for size in (layer.in_features, layer.out_features))
    x, slope = (numbers(8, s, torch.float64, salt) - 4 for salt, s in enumerate(shapes))
    return {"x": x, "slope": slope} | {name: p.detach() for name, p in layer.named_parameters()}


def parts(dims, tensors, case, place, n, unit=None) -> dict:
    """A rank's part of each of these tensors."""

    def part(x, dim):
        if x is None or dim is None:
            return x
        return strip(x, dim, *span(x.shape[dim], place, n, unit or case.unit))

    return {name: part(x, dims[name]) for name, x in tensors.items()}


def of_ranks(dims, trial) -> list[SimpleNamespace]:
    """What each rank has: of x, slope, weight, and bias, which is 0 if there is none."""
    tensors = whole(dims, trial.case)
    return [
        SimpleNamespace(**{"bias": 0} | parts(dims, tensors, trial.case, k, trial.n))
        for k in range(trial.n)
    ]


def has_equal_parts(trial) -> bool:
    return trial.case.length % (trial.n * trial.case.unit) == 0


def in_one_process(dims, trial, place) -> dict:
    """A rank's part of y, called slope; and of the gradients."""
    layer, tensors = linear(dims, trial.case), whole(dims, trial.case)
    y = layer(tensors["x"].requires_grad_())
    (y * tensors["slope"]).sum().backward()
    gradients = {name: p.grad for name, p in layer.named_parameters()}
    found = {"slope": y.detach(), "x": tensors["x"].grad} | gradients
    return parts(dims, found, trial.case, place, trial.n)


# ---- On a rank ---


def layer_on_rank(dims, answer, group, case):
    place, n, ways = dist.get_rank(group), dist.get_world_size(group), []
    name = "enter" if by_columns(dims) else "leave"

    def noting(x, group=None):
        ways.append(name)
        return getattr(answer.lab, name)(x, group)

    options = {name: noting} if case.own else {}
    options |= {"unit": case.unit} if case.unit > 1 else {}
    layer = answer(linear(dims, case), group, **options)
    wanted = parts(dims, whole(dims, case), case, place, n)
    x, slope = wanted.pop("x").clone().requires_grad_(), wanted.pop("slope")
    got = dict(layer.named_parameters())
    tensors = {name for name in wanted if isinstance(getattr(layer, name, None), torch.Tensor)}
    found = {"names": (list(got), list(wanted), tensors)}
    fits = got.keys() == wanted.keys()
    if fits:
        cut_dims = {name: getattr(p, "cut_dim", None) for name, p in got.items()}
        found |= {
            "parameters": {name: p.detach().clone() for name, p in got.items()},
            "learn": {name: p.requires_grad for name, p in got.items()},
            "cut_dim": {k: None if d is None else d % got[k].dim() for k, d in cut_dims.items()},
            "views": [k for k, p in got.items() if p.untyped_storage().nbytes() > p.nbytes],
        }
        fits = all(got[name].shape == wanted[name].shape for name in wanted)
    all_fit = torch.tensor(float(fits))
    dist.all_reduce(all_fit, dist.ReduceOp.MIN, group)  # so that none waits for others in vain
    if all_fit:
        found |= both_ways(lambda: layer(x), {"x": x} | got, slope)
        found |= {"ways": len(ways)} if case.own else {}
    return found


# ---- What is to be true ---


def why_names(trial, place) -> str:
    got, wanted, tensors = trial[place].names
    if tensors - set(got):
        return "a plain tensor is not trained: it is to be a nn.Parameter. part_of makes one"
    if any("." in name for name in got):
        return (
            "the whole layer is kept as well: no memory is gained. Keep this rank's part alone, as "
            "self.weight and self.bias"
        )
    if "bias" in set(wanted) - set(got):
        return "every rank has a parameter for the bias: without it there is nothing to train"
    return "they are called as in nn.Linear: self.weight, and self.bias, which may be None"


def parameters_of(dims, trial, place):
    case, n, tensors = trial.case, trial.n, whole(dims, trial.case)
    del tensors["x"], tensors["slope"]
    wanted = parts(dims, tensors, case, place, n)
    weight, bias = tensors["weight"], tensors.get("bias")
    of_bias = {
        "1/n of the bias on every rank gives the right sum, but this is no longer the layer's "
        "bias: it would be trained n times too slowly, and be wrong in a checkpoint":
            lambda: bias / n,
        "it is zero: the bias would be on one rank alone, and all others would train another one. "
        "Every rank has all of it, and adds it after the sum": lambda: bias * (place == 0),
        "a row layer's bias is whole: it is added to the output, after the sum, and that is the "
        "same on all ranks": lambda: bias.tensor_split(n)[place],
    } if case.has_bias and not by_columns(dims) else {}  # fmt: skip
    return wanted, {
        "this is all of it: each rank is to have its part alone": tensors,
        "`unit` is not handed on: what belongs together is torn apart":
            parts(dims, tensors, case, place, n, unit=1),
        "this is cut along the other dim. nn.Linear stores A transposed, (outputs, inputs): A's "
        "columns are its rows, dim 0, and A's rows its columns, dim 1":
            wanted | {"weight": weight.tensor_split(n, 1 - dims["weight"])[place]},
        "transposed: the weight stays as nn.Linear stores it, (outputs, inputs)":
            wanted | {"weight": wanted["weight"].T},
    } | {why: wanted | {"bias": wrong()} for why, wrong in of_bias.items()}  # fmt: skip


def split_layer(number, name, dims, mistakes, **others) -> RankExercise:
    """The exercise to write such a layer.

    mistakes  takes a trial, a place, and what is right there: y, and gradients. Gives two tables
    """
    way, sums, what = ("enter", "backward", "x") if by_columns(dims) else ("leave", "forward", "y")

    def of_parameters(get):
        return lambda trial, _: {
            name: get(name, p) for name, p in linear(dims, trial.case).named_parameters()
        }

    def y_and_gradients(trial, place):
        gradients = in_one_process(dims, trial, place)
        y = gradients.pop("slope")
        in_y, in_gradients = mistakes(trial, place, y, gradients)
        return {"y": (y, in_y), "gradients": (gradients, in_gradients)}

    quiet = "forward" if sums == "backward" else "backward"
    lone = f"self.{way} is all that sends, and only in the {sums}"
    not_alike = (
        "x comes as it is needed is to be cut: a row layer gets this rank's inputs "
        "already, and a column layer takes all inputs. The weight is as nn.Linear stores it, "
        "(outputs, inputs), which is how F.linear takes it"
    )
    no_fit = (
        "the bias does not fit to the output: a column layer's is cut as its rows are, a row "
        "layer's is whole"
    )
    return RankExercise(
        number,
        name,
        lab="tensor_parallel",
        cases=CASES,
        work=partial(layer_on_rank, dims),
        facts=[
            Holds("names", lambda of: set(of[0]) == set(of[1]),
                  lambda of: f"its parameters are {', '.join(of[0]) or 'none'}; expected "
                  f"{', '.join(of[1])}", why_names),
            right("parameters", partial(parameters_of, dims), called="the parameter",
                  otherwise="see whether these are another rank's numbers, or in another order: a "
                  "parameter is cut once"),
            Equals("learn", of_parameters(lambda _, p: p.requires_grad), called="requires_grad",
                   otherwise="the part of a frozen parameter is frozen, and of any other it is "
                   "not: part_of sees to it"),
            Equals("cut_dim", of_parameters(lambda name, _: dims[name]),
                   otherwise="part_of notes how the whole was cut: without that, whole() takes a "
                   "part for all of it. A bias that is whole has no such note"),
            never("views", lambda names: f"{names[0]} is a view: it keeps more than its own bytes",
                  "all of the whole keeps its memory. cut(), which part_of calls, copies the part"),
            never("constant", "the output does not require a gradient",
                  "there is no way back from the output to x: was something detached, or computed "
                  "under no_grad?"),
            right("y", lambda *at: y_and_gradients(*at)["y"], called="the output"),
            right("gradients", lambda *at: y_and_gradients(*at)["gradients"],
                  called="the gradient"),
            ALL_KNOWN,
            Holds("ways", lambda calls: calls == 1,
                  f"self.{way} was called {{}} times, expected once",
                  f"the caller may bring another way: call self.{way}(…, self.group)"),
            Traffic(sums, lambda trial: ring_bytes(40 * prod(trial.case.leading), trial.n), lone),
            Traffic(quiet, None, lone),
        ],
        told=f"output and gradients of nn.Linear; sent is an all-reduce of {what} in the {sums}",
        errors={
            "cannot be cut into": not_alike,
            "shapes cannot be multiplied": not_alike,
            "size mismatch": not_alike,
            "The expanded size of the tensor": no_fit,
            "must match the size of tensor": no_fit,
            "'NoneType'": "a layer may have no bias: linear.bias is None then",
        },
        lost="every rank of the group makes the same calls, with tensors of the same size",
        **others,
    )  # fmt: skip

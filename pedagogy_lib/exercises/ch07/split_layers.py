"""Linear layers of which each rank has a part: exercises 7.4 and 7.5. The truth is nn.Linear."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close
from ...course.checking import Wrong
from ..kit.groups import Calls, need_known, noting_passed
from ..kit.one_world import WORLD, found_in, need_tensor, need_traffic, ring_bytes, try_cases
from ..kit.refused import Refused
from .layer_parts import KINDS, Layer, need_parameters
from .regions import RIGHT, need_right

NAMES = {
    "y": "the output",
    "x": "the gradient of x",
    "weight": "the gradient of weight",
    "bias": "the gradient of bias",
}
LAYERS = [
    Layer("with bias"),
    Layer("no bias, x of one dim", has_bias=False, leading=()),
    Layer("units of 2", length=8, unit=2),
    Layer("frozen weight", frozen=("weight",)),
    Layer("all frozen", frozen=("weight", "bias")),
    Layer("enter or leave of its own", own=True),
    Layer("with bias", in_groups=True),
]
NOT_ALIKE = (
    "x comes as it is needed, nothing is to be cut: a row layer gets this rank's inputs already, "
    "and a column layer takes all inputs. The weight is as nn.Linear stores it, (outputs, inputs), "
    "which is how F.linear takes it"
)
NO_FIT = (
    "the bias does not fit to the output: a column layer's is cut as its rows are, a row layer's "
    "is whole"
)
LAYER_ERRORS = {
    "cannot be cut into": NOT_ALIKE,
    "shapes cannot be multiplied": NOT_ALIKE,
    "size mismatch": NOT_ALIKE,
    "The expanded size of the tensor": NO_FIT,
    "must match the size of tensor": NO_FIT,
    "does not require grad": "there is no way back from the output to x: was something detached, "
    "or computed under no_grad?",
    "'NoneType'": "a layer may have no bias: linear.bias is None then",
}


def examine_layer(answer):
    kind = KINDS[answer.__name__]
    run = try_cases(layer_on_rank, answer, LAYERS, LAYER_ERRORS)
    for case, found in found_in(run, LAYERS):
        if case.own:
            judge_way(kind, case, found)
            yield f"{case}: self.{kind.way} is called once"
            continue
        judge_numbers(kind, case, found)
        need_known(str(case), [of["passed"] for of in found])
        sizes = ", ".join(str(case.size(rank)) for rank in range(WORLD))
        what = "columns" if kind.way == "enter" else "rows"
        yield f"{case}: {sizes} {what}; output and gradients of nn.Linear"
        if case is LAYERS[0]:
            yield judge_traffic(kind, case, found)


# ---- On a rank -------------------------------------------------------------------------------


class Way:
    """An `enter` or `leave` that counts its calls, and gives back twice what it gets."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x, group=None):
        self.calls += 1
        return 2 * x


class WholeCalls(Calls):
    """Refuses to add up what is cut: its sizes may differ, and Gloo would kill the rank.

    cut  its shape on this rank; None if that is all of it
    """

    def __init__(self, cut, why):
        super().__init__()
        self.cut, self.why = cut, why

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.c10d.allreduce_.default and args[0][0].shape == self.cut:
            what = f"an all-reduce is given shape {list(self.cut)}, which is this rank's part"
            raise Refused(what, self.why)
        return super().__torch_dispatch__(func, types, args, kwargs)


PARTS_SUMMED = {
    ("enter", "forward"): "each rank has other columns of the output: they are not added up. The "
    "output stays split, the next layer takes it so",
    ("enter", "backward"): "what you gave to enter is cut already: its gradients belong to "
    "different features on each rank. f stands before the columns, on x",
    ("leave", "forward"): "each rank has other inputs: they are not added up, but what each rank "
    "makes of them, F.linear(x, self.weight)",
    ("leave", "backward"): "a row layer needs no f: x is cut already, and its gradients belong to "
    "different features on each rank",
}


def layer_on_rank(answer, group, case):
    kind, rank, way = KINDS[answer.__name__], dist.get_rank(), Way()
    options = {kind.way: way} if case.own else {}
    options |= {"unit": case.unit} if case.unit > 1 else {}
    layer = answer(case.linear(kind), group, **options)
    need_parameters(layer, kind, case, rank)
    x, gradient = case.around(kind)
    split, cut = (gradient, kind.y) if kind.x is None else (x, kind.x)
    cut = case.part(split, cut, rank).shape
    cut = cut if cut != split.shape else None
    x = case.part(x, kind.x, rank).clone().requires_grad_()
    with WholeCalls(cut, PARTS_SUMMED[kind.way, "forward"]) as forward:
        y = layer(x)
    need_tensor(y, "forward")
    found = {"y": y.detach().clone(), "way": way.calls, "forward": forward.made}
    if not case.own and y.shape == case.part(gradient, kind.y, rank).shape:
        backward = WholeCalls(cut, PARTS_SUMMED[kind.way, "backward"])
        with backward, noting_passed() as passed:
            (y * case.part(gradient, kind.y, rank)).sum().backward()
        found |= {"x": x.grad, "backward": backward.made, "passed": passed}
        found |= {name: parameter.grad for name, parameter in layer.named_parameters()}
    return found


# ---- Judging ---------------------------------------------------------------------------------


def truth(kind, case, rank):
    """What one process finds, in this rank's parts; None for what has no gradient."""
    linear, (x, gradient) = case.linear(kind), case.around(kind)
    x.requires_grad_()
    y = linear(x)
    (y * gradient).sum().backward()
    found = {"y": y.detach(), "x": x.grad}
    found |= {name: parameter.grad for name, parameter in linear.named_parameters()}
    return {
        what: None if of is None else case.part(of, getattr(kind, what), rank)
        for what, of in found.items()
    }


def judge_numbers(kind, case, found):
    truths = [truth(kind, case, rank) for rank in range(WORLD)]
    for what in truths[0]:
        got = [of.get(what) for of in found]
        if not all(close(g, of[what]) for g, of in zip(got, truths)):
            tables = [
                {RIGHT: of[what]} | guesses_at(what, of, kind, case, rank)
                for rank, of in enumerate(truths)
            ]
            need_right(case, NAMES[what], got, tables)


def guesses_at(what, right, kind, case, rank):
    """{sentence: what this misconception gives}."""
    linear, (x, gradient) = case.linear(kind), case.around(kind)
    weight = case.part(linear.weight.detach(), kind.weight, rank)
    bias = 0 if linear.bias is None else case.part(linear.bias.detach(), kind.bias, rank)
    n = case.seat(rank)[1]
    with torch.no_grad():
        if kind.way == "leave":
            summand = F.linear(case.part(x, -1, rank), weight)
            return guesses_at_row(what, right, summand, bias, n, case.seat(rank)[0])
        partial = case.part(gradient, -1, rank) @ weight
        return guesses_at_column(what, right, linear(x), F.linear(x, weight), bias, partial, n)


def guesses_at_column(what, right, whole, plain, bias, partial, n):
    """plain: this rank's columns without bias; partial: x's gradient through them alone."""
    if what == "y":
        return {
            "the bias is missing": plain,
            "x goes in n times, as a sum over all ranks. All have the same x: what it goes through "
            "on its way in is `enter`, which adds up in the backward": n * plain + bias,
            "these are all columns: the output stays split, the next layer takes it so": whole,
        }
    if what != "x":
        return {"n times too much: it is for x alone that gradients are added up": n * right[what]}
    return {
        "this is what comes through this rank's columns alone; x went into all columns, on all "
        "ranks. self.enter adds up in the backward": partial,
        "the mean, not the sum: x went into all ranks' columns": right["x"] / n,
        "added up twice, so it is n times too much": n * right["x"],
        "x gets no gradient: was it detached, or was the layer computed under no_grad?": None,
    }


def guesses_at_row(what, right, summand, bias, n, place):
    """summand: what this rank's rows give, without bias."""
    if what == "y":
        plain = right["y"] - bias
        return {
            "the bias is added on every rank before the sum, so it is there n times: add it to "
            "the sum": plain + n * bias,
            "each rank has its own summand still: self.leave adds them up": summand + bias,
            "each rank has its own summand, without bias": summand,
            "the bias is missing": plain,
            "the mean, not the sum: each rank has a summand": plain / n + bias,
        }
    if what == "bias":
        return {
            "1/n of the bias on every rank gives the right sum, and each rank 1/n of its gradient: "
            "it would learn n times too slowly. Add all of it, once, after the sum":
                right["bias"] / n,
            "only one rank has added the bias, so all others have no gradient for it, and their "
            "bias stays as it is. Add it on every rank, after the sum":
                None if place else right["bias"],
            "the bias's gradient is zero on all ranks but one: their bias stays as it is. Add it "
            "on every rank, after the sum":
                torch.zeros_like(right["bias"]) if place else right["bias"],
            "n times too much: is the bias added before the sum, or the backward adding up, too?":
                n * right["bias"],
        }  # fmt: skip
    return {
        "n times too much: the backward adds up, too. Behind the sum all ranks compute the same: "
        "self.leave is all that is needed": n * right[what],
        "there is no gradient: was it detached, or was the layer computed under no_grad?": None,
    }


def judge_way(kind, case, found):
    """Raise `Wrong` unless the `enter` or `leave` that was given was used, once."""
    linear, x = case.linear(kind), case.around(kind)[0]
    for rank, of in enumerate(found):
        if of["way"] != 1:
            what = f"rank {rank}: it was called {of['way']} times, expected once"
            raise Wrong(str(case), what, NOT_USED.format(kind.way))
    with torch.no_grad():
        wanted = [doubled(linear, x, kind, case, rank) for rank in range(WORLD)]
    tables = [{RIGHT: y, WITH_BIAS: more} for y, more in wanted]
    need_right(case, "the output", [of["y"] for of in found], tables)


NOT_USED = "the caller may bring another way: call self.{}(…, self.group)"
WITH_BIAS = "the bias goes through `leave`, too: add it to what comes out"


def doubled(linear, x, kind, case, rank):
    """The output if enter or leave doubles; and if leave doubles the bias, too."""
    weight = case.part(linear.weight, kind.weight, rank)
    bias = case.part(linear.bias, kind.bias, rank)
    plain = F.linear(case.part(x, kind.x, rank), weight)
    return 2 * plain + bias, 2 * (plain + bias)


def judge_traffic(kind, case, found) -> str:
    x, y = case.around(kind)
    sends, tensor, name = ("backward", x, "x") if kind.way == "enter" else ("forward", y, "y")
    for when in ("forward", "backward"):
        most = ring_bytes(tensor.nbytes) if when == sends else 0
        why = f"self.{kind.way} is all that sends, and only in the {sends}"
        need_traffic(case, [of[when] for of in found], when, most, why)
    return f"cost, {case}: an all-reduce of {name}, {tensor.nbytes} bytes, in the {sends} alone"

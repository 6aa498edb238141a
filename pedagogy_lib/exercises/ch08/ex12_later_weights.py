"""A linear layer whose weights get their gradients later. The truth is F.linear."""

import contextlib
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from ..kit import Equals, never
from ..kit.alone import Alone
from ..kit.in_this_process import InThisProcess
from ..kit.outcomes import outcome_of
from ..kit.trials import turned
from ..kit.values import VIEW
from .ex06_stage import draw

INPUTS, OUTPUTS = 4, 3
NAMES = "weight", "bias"
DIMS = (
    "x may have more dims than two: the gradient of the weight is a sum over all but the last, so "
    "gradient.flatten(0, -2) first, and x alike"
)
TRANSPOSED = "x Aᵀ: the gradient of x is a product with A as it is stored, without a transposition"
NOT_FITTING = f"the shapes do not fit. {TRANSPOSED}; the weight's is gradientᵀ x"
ERRORS = {
    "has no attribute 'apply'": "keep it a torch.autograd.Function",
    "incorrect number of gradients": "backward returns one gradient for each argument of forward "
    "behind ctx: x, weight, bias, later. All but the first are None",
    "object has no attribute": "backward knows what forward has kept on ctx; and .grad is None at "
    "first",
    "can only save variables": "save_for_backward is for tensors. A list is an attribute of ctx: "
    "ctx.later = later",
    "required positional argument": "whoever calls the functions in `later` gives them nothing: "
    "partial(function, x, gradient, …) needs no arguments any more",
    "and 'NoneType'": "weight.grad is None at first",
    "'NoneType' and": "weight.grad is None at first",
    "view size is not compatible": VIEW,
    "expected at most": DIMS,
    "must match the size": DIMS,
    "mat1 and mat2 shapes": NOT_FITTING,
    "size mismatch": NOT_FITTING,
    "assigned grad has data of a different size": "a gradient has its parameter's shape. The "
    "weight is (outputs, inputs): gradientᵀ x, and the bias's is a sum over all but the last dim",
    "doesn't match the broadcast shape": DIMS,
    "a leaf Variable": "parameters are not to be changed: the gradient belongs to weight.grad",
    "directly access saved tensors": "autograd frees what it has saved as soon as the backward "
    "returns: read ctx.saved_tensors in the backward itself, and hand on the tensors",
    "is not callable": "what is in `later` is called, without arguments: append a function",
    "expected Tensor as element": "a gradient may be None: of a frozen weight, or a missing bias",
}


@dataclass(frozen=True)
class Layer:
    """What is tried: a layer, and what goes through it.

    lead     dimensions of x before its inputs
    bias     whether there is one
    frozen   what has no gradient: "x", "weight", "bias"
    uses     how often the same weight is used, each time with another x
    reverse  whether the functions in `later` are called from the last to the first
    before   whether the weights have a gradient already
    turned   whether x and the gradient that comes in lie in memory in another order
    hooked   whether hooks are at work that give back other tensors than those that were saved,
             as a memory meter or an offloading to the CPU has them
    """

    lead: tuple[int, ...] = (5,)
    bias: bool = True
    frozen: str = ""
    uses: int = 1
    reverse: bool = False
    before: bool = False
    turned: bool = False
    hooked: bool = False

    def weights(self) -> dict:
        """{name: weight}, None for a bias that is not there."""
        made = [draw(1, OUTPUTS, INPUTS), draw(2, OUTPUTS) if self.bias else None]
        found = dict(zip(NAMES, made))
        for name, weight in found.items():
            if weight is not None and self.before:
                weight.grad = torch.ones_like(weight)
            if weight is not None:
                weight.requires_grad_(name != self.frozen)
        return found

    def xs(self) -> list:
        made = [self.draw(3 + k, INPUTS) for k in range(self.uses)]
        return [x.requires_grad_(self.frozen != "x") for x in made]

    def slopes(self) -> list:
        """The gradients of the outputs."""
        return [self.draw(20 + k, OUTPUTS) for k in range(self.uses)]

    def draw(self, seed, width):
        x = draw(seed, *self.lead, width)
        return turned(x) if self.turned else x

    def hooks(self):
        if not self.hooked:
            return contextlib.nullcontext()
        return saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)


def use(answer, place, case):
    """Forward and backward of an answer; then what is in `later` is called."""
    (layer,), later, found = case.args, [], {"failed": None}
    weights, xs = layer.weights(), layer.xs()
    with layer.hooks():
        apply = getattr(answer.lab, answer.__name__).apply
        ys = [apply(x, *weights.values(), later) for x in xs]
        found["outputs"] = [y.detach() if isinstance(y, torch.Tensor) else y for y in ys]
        found["early"] = len(later)
        with FlopCounterMode(display=False) as flops:
            for y, slope in zip(ys, slopes := layer.slopes()):
                if isinstance(y, torch.Tensor) and y.requires_grad and y.shape == slope.shape:
                    y.backward(slope)
        of_x = 2 * sum(map(torch.numel, xs)) * OUTPUTS
        found["flops"] = max(0, flops.get_total_flops() - of_x)
        found["slope_changed"] = not all(map(torch.equal, slopes, layer.slopes()))
        found["of_xs"] = [x.grad for x in xs]
        found["at_once"] = gradients_in(weights)
        found["functions"] = len(later)
        found["has_none"] = None in later
        found["too_few"] = len(later) < layer.uses and layer.uses
        for function in later[:: -1 if layer.reverse else 1] if None not in later else []:
            outcome = outcome_of(function)
            found["failed"] = found["failed"] or (outcome if outcome.error else None)
    found["of_weights"] = gradients_in(weights)
    found["frozen"] = found["of_weights"].get(layer.frozen) is not None and layer.frozen
    found["graphs"] = [name for name, slope in found["of_weights"].items() if requires(slope)]
    return found


def gradients_in(weights) -> dict:
    """Copies of them, as they are now."""
    some = {name: w.grad for name, w in weights.items() if w is not None}
    return {name: None if slope is None else slope.clone() for name, slope in some.items()}


def requires(slope) -> bool:
    return slope is not None and slope.requires_grad


# ---- What is right, and what is not ---


def right(trial) -> tuple[list, list, dict]:
    """Outputs, the gradients of each x, and {name: what each use adds to the gradient}."""
    (layer,) = trial.case.args
    xs, weights = layer.xs(), layer.weights()
    some = {name: w for name, w in weights.items() if w is not None}
    ys = [F.linear(x, *weights.values()) for x in xs]
    of_xs, of_weights = [], {name: [] for name in some}
    for x, y, slope in zip(xs, ys, layer.slopes()):
        leaves = {k: leaf for k, leaf in [("x", x), *some.items()] if leaf.requires_grad}
        found = dict(zip(leaves, torch.autograd.grad(y, leaves.values(), slope)))
        of_xs.append(found.get("x"))
        for name in some:
            of_weights[name].append(found.get(name))
    return [y.detach() for y in ys], of_xs, of_weights


def no_bias(trial, place):
    (layer,) = trial.case.args
    return {"the bias is missing": [F.linear(x, layer.weights()["weight"]) for x in layer.xs()]}


def before(trial, place):
    (layer,) = trial.case.args
    return gradients_in(layer.weights())


def of_weights(trial, place, of_uses=sum):
    """What was there before, and what the uses add."""
    found = before(trial, place)
    for name, parts in right(trial)[2].items():
        if None not in parts:
            found[name] = of_uses(parts) + (0 if found[name] is None else found[name])
    return found


def wrong_weights(trial, place):
    (layer,), old = trial.case.args, before(trial, place)
    last = 0 if layer.reverse else -1  # of the functions that are called
    alone = {name: of[last] for name, of in right(trial)[2].items() if None not in of}
    nothing = (
        "saved_tensors may give another tensor than the parameter, and the gradient went there. "
        "Keep weight and bias as ctx.weight and ctx.bias; save_for_backward is for x"
        if layer.hooked
        else "nothing is added to it: what is in `later` adds the gradients of both, weight and "
        "bias"
    )
    return {
        "the gradient is set, and what was there before is lost: other micro-batches have added "
        "theirs to weight.grad": old | alone,
        nothing: old,
        "each gradient is added twice: one function for each backward, which adds it once":
            of_weights(trial, place, lambda parts: 2 * sum(parts)),
    }  # fmt: skip


def why_too_few(trial, place) -> str:
    if trial[place].functions:
        return (
            "the functions of other micro-batches are there already, and each backward adds its "
            "own to them: ctx.later.append(…)"
        )
    return (
        "nothing has been added to `later`, so nobody can compute the gradients of the weights: "
        "ctx.later.append(…) in the backward"
    )


def why_without_bias(case, error) -> str:
    has_bias = case.args[0].bias
    return "" if has_bias else "there may be no bias: bias is None then, and has no gradient"


def told(trial) -> str:
    of = trial[0]
    later = [name for name, slope in of.of_weights.items() if slope is not None]
    return "x's gradient at once, " * (None not in of.of_xs) + f"{' and '.join(later)} later"


EXERCISE = InThisProcess(
    "8.12",
    "LaterWeights",
    lab="pipeline_parallel",
    cases=[
        Alone(what, use, (layer,))
        for what, layer in {
            "x of 2 dims": Layer(),
            "x of 3 dims": Layer(lead=(2, 3)),
            "without a bias": Layer(lead=(2, 3), bias=False),
            "a gradient there already": Layer(before=True),
            "the same weight three times": Layer(lead=(2, 2), uses=3),
            "three times, called from the last on": Layer(lead=(2, 2), uses=3, reverse=True),
            "the first layer: x needs no gradient": Layer(frozen="x"),
            "a frozen weight": Layer(frozen="weight"),
            "a frozen bias": Layer(frozen="bias"),
            "a transposed gradient": Layer(lead=(2, 3), turned=True),
            "under torch.autograd.graph.saved_tensors_hooks": Layer(hooked=True),
        }.items()
    ],
    work=use,
    facts=[
        Equals("outputs", lambda trial, place: right(trial)[0], no_bias, "the output"),
        never("early", "after the forward `later` has {} functions",
              "`later` gets its function in the backward: in the forward there is no gradient yet"),
        Equals("of_xs", lambda trial, place: right(trial)[1], lambda trial, place: {
                   "the gradient of x is needed at once: the rank before waits for it":
                       [None] * trial.case.args[0].uses,
               }, "after the backward the gradient of x"),
        never("slope_changed", "the gradient that comes in has changed",
              "the weights' gradients still need it, and others may have it, too: leave it alone"),
        never("has_none", "after the backward `later` has None", "a function is to be put there, "
              "not its result: partial(function, x, gradient, …)"),
        Equals("at_once", before, called="right after the backward, the gradient",
               otherwise="the backward gives the gradient of x alone, and None for the weight and "
               "the bias: theirs are what a function in `later` is for"),
        never("too_few", "after {} backwards `later` has fewer functions", why_too_few),
        never("flops", "the backward computes {} FLOPs beside the gradient of x",
              "another product is computed in the backward, and its result only added later: the "
              "rank before waits for it. Let the function in `later` compute it"),
        never("failed", str, lambda trial, place: EXERCISE.why_it_failed(
            trial.case, trial[place].failed)),
        never("frozen", "the {} is frozen, and has a gradient",
              "a weight that does not require a gradient gets none"),
        Equals("of_weights", of_weights, wrong_weights, "when `later` has been called, the "
               "gradient"),
        never("graphs", lambda names: f"{names[0]}.grad requires a gradient itself",
              "autograd has recorded how this gradient was computed, and so keeps x and the "
              "gradient of y alive as long as weight.grad is there: compute it under "
              "torch.no_grad()"),
    ],
    told=told,
    explain=why_without_bias,
    errors=ERRORS,
    hints=(
        "The backward has two things to compute, and one of them nobody waits for. What does "
        "that one need, besides the gradient that comes in?",
        "forward keeps x, weight, bias and later: save_for_backward(x), and attributes of ctx. "
        "backward returns gradient @ weight, and None for the other three.",
        "ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias)): "
        "a function that needs no arguments any more, and adds what is missing.",
    ),
)  # fmt: skip

"""A linear layer whose weights get their gradients later: exercise 8.12. The truth is F.linear."""

import contextlib
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks

from ...basics.closeness import close, told_gap
from ...course.checking import Exercise, Wrong
from ...ranks.call_stack import is_library
from ..kit.differences import recognise
from ..kit.outcomes import NO_RETURN, outcome_of
from ..kit.trials import kind_of
from .ex06_stage import draw

INPUTS, OUTPUTS = 4, 3


@dataclass(frozen=True)
class Case:
    """What the layer is tried on.

    lead      dimensions of x before its inputs
    bias      whether there is one
    frozen    what has no gradient: "x", "weight", "bias"
    uses      how often the same weight is used, each time with another x
    reverse   whether the functions in `later` are called from the last to the first
    before    whether the weights have a gradient already
    turned    whether the gradient that comes in lies in memory in another order
    hooked    whether hooks are at work that give back other tensors than those that were saved,
              as a memory meter or an offloading to the CPU has them
    """

    title: str
    lead: tuple[int, ...] = (5,)
    bias: bool = True
    frozen: str = ""
    uses: int = 1
    reverse: bool = False
    before: bool = False
    turned: bool = False
    hooked: bool = False


CASES = [
    Case("x of 2 dims"),
    Case("x of 3 dims", lead=(2, 3)),
    Case("without a bias", lead=(2, 3), bias=False),
    Case("a gradient there already", before=True),
    Case("the same weight three times", lead=(2, 2), uses=3),
    Case("three times, called from the last on", lead=(2, 2), uses=3, reverse=True),
    Case("the first layer: x needs no gradient", frozen="x"),
    Case("a frozen weight", frozen="weight"),
    Case("a frozen bias", frozen="bias"),
    Case("a transposed gradient", lead=(2, 3), turned=True),
    Case("under torch.autograd.graph.saved_tensors_hooks", hooked=True),
]
AT_ONCE = (
    "the backward gives the gradient of x alone, and None for the weight and the bias: theirs are "
    "what a function in `later` is for"
)
NOTHING_LATER = (
    "nothing has been added to `later`, so nobody can compute the gradients of the weights: "
    "ctx.later.append(…) in the backward"
)
NO_FUNCTION = "a function is to be put there, not its result: partial(function, x, gradient, …)"
FUNCTIONS_LOST = (
    "the functions of other micro-batches are there already, and each backward adds its own to "
    "them: ctx.later.append(…)"
)
NOT_THE_PARAMETER = (
    "saved_tensors may give another tensor than the parameter, and the gradient went there. Keep "
    "weight and bias as ctx.weight and ctx.bias; save_for_backward is for x"
)
IN_FORWARD = "`later` gets its function in the backward: in the forward there is no gradient yet"
ARGUMENTS = (
    "whoever calls the functions in `later` gives them nothing: partial(function, x, gradient, …) "
    "needs no arguments any more"
)
WITHOUT = "there may be no bias: bias is None then, and has no gradient"
DIMS = (
    "x may have more dims than two: the gradient of the weight is a sum over all but the last, so "
    "gradient.flatten(0, -2) first, and x alike"
)
ADDS = (
    "the gradient is set, and what was there before is lost: other micro-batches have added theirs "
    "to weight.grad"
)
FROZEN = "a weight that does not require a gradient gets none"
WITH_GRAPH = (
    "autograd has recorded how this gradient was computed, and so keeps x and the gradient of y "
    "alive as long as weight.grad is there: compute it under torch.no_grad()"
)
TRANSPOSED = "x Aᵀ: the gradient of x is gradient @ weight, without a transposition"
NO_X = "the gradient of x is needed at once: the rank before waits for it"
ERRORS = {
    "incorrect number of gradients": "backward returns one gradient for each argument of forward "
    "behind ctx: x, weight, bias, later. All but the first are None",
    "object has no attribute": "backward knows what forward has kept on ctx; and .grad is None at "
    "first",
    "can only save variables": "save_for_backward is for tensors. A list is an attribute of ctx: "
    "ctx.later = later",
    "required positional argument": ARGUMENTS,
    "and 'NoneType'": "weight.grad is None at first",
    "'NoneType' and": "weight.grad is None at first",
    "view size is not compatible": "view needs numbers that lie one after another in memory, and a "
    "gradient need not: flatten or reshape copies where it has to",
    "expected at most": DIMS,
    "must match the size": DIMS,
    "mat1 and mat2 shapes": f"the shapes do not fit. {TRANSPOSED}; the weight's is gradientᵀ x",
    "size mismatch": f"the shapes do not fit. {TRANSPOSED}; the weight's is gradientᵀ x",
    "assigned grad has data of a different size": "a gradient has its parameter's shape. The "
    "weight is (outputs, inputs): gradientᵀ x, and the bias's is a sum over all but the last dim",
    "doesn't match the broadcast shape": DIMS,
    "a leaf Variable": "parameters are not to be changed: the gradient belongs to weight.grad",
    "is not callable": "what is in `later` is called, without arguments: append a function",
    "expected Tensor as element": "a gradient may be None: of a frozen weight, or a missing bias",
}


class Trial:
    """A layer that is used, and what comes of it; see Case."""

    def __init__(self, case, function):
        self.case, self.function, self.later = case, function, []
        needs = lambda name: name not in case.frozen  # noqa: E731
        self.weight = draw(1, OUTPUTS, INPUTS).requires_grad_(needs("weight"))
        self.bias = draw(2, OUTPUTS).requires_grad_(needs("bias")) if case.bias else None
        shape = (*case.lead, INPUTS)
        self.xs = [draw(3 + k, *shape).requires_grad_(needs("x")) for k in range(case.uses)]
        self.slopes = [self.slope(k) for k in range(case.uses)]
        self.old = {name: torch.ones_like(w) for name, w in self.weights().items()}
        if case.before:
            for name, weight in self.weights().items():
                weight.grad = self.old[name].clone()

    def slope(self, k):
        """The gradient of the k-th output."""
        if not self.case.turned:
            return draw(20 + k, *self.case.lead, OUTPUTS)
        return draw(20 + k, OUTPUTS, *self.case.lead[::-1]).permute(2, 1, 0)

    def weights(self):
        both = {"weight": self.weight, "bias": self.bias}
        return {name: w for name, w in both.items() if w is not None and w.requires_grad}

    def call(self, doing, function, *args):
        outcome = outcome_of(function, *args)
        if outcome.error:
            why = next((why for words, why in ERRORS.items() if words in outcome.message), "")
            why = WITHOUT if not self.case.bias else why
            raise Wrong(self.case.title, f"{doing}: {told_error(outcome)}", why)
        return outcome.value

    def wrong(self, what, why):
        raise Wrong(self.case.title, what, why)

    def truth(self):
        """Outputs; the gradients of each x and, over all uses, of each weight."""
        ys = [F.linear(x, self.weight, self.bias) for x in self.xs]
        total = sum((y * slope).sum() for y, slope in zip(ys, self.slopes))
        leaves = [x for x in self.xs if x.requires_grad] + list(self.weights().values())
        slopes = list(torch.autograd.grad(total, leaves))
        of_xs = [slopes.pop(0) if x.requires_grad else None for x in self.xs]
        return [y.detach() for y in ys], of_xs, dict(zip(self.weights(), slopes))

    def hooks(self):
        if not self.case.hooked:
            return contextlib.nullcontext()
        return saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)

    def use(self) -> list:
        """Forward and backward, not yet what is in `later`; returns the outputs."""
        arguments = self.weight, self.bias, self.later
        ys = [self.call("forward", self.function.apply, x, *arguments) for x in self.xs]
        for y in ys:
            if not isinstance(y, torch.Tensor):
                self.wrong(f"forward gave {y!r:.60}", NO_RETURN if y is None else "")
        if self.later:
            self.wrong(f"after the forward `later` has {len(self.later)} functions", IN_FORWARD)
        for y, slope in zip(ys, self.slopes):
            if y.requires_grad and y.shape == slope.shape:
                self.call("backward", y.backward, slope)
        return [y.detach() for y in ys]

    def compute_later(self):
        for compute in self.later[:: -1 if self.case.reverse else 1]:
            self.call("what is in `later`", compute)


def examine_later_weights(answer):
    for case in CASES:
        function = getattr(answer.lab, answer.__name__)
        if not hasattr(function, "apply"):
            raise Wrong(case.title, "it has no `apply`", "keep it a torch.autograd.Function")
        trial = Trial(case, function)
        ys, of_xs, of_weights = trial.truth()
        with trial.hooks():
            judge_outputs(trial, trial.use(), ys)
            judge_x(trial, of_xs)
            judge_before(trial)
            trial.compute_later()
        judge_after(trial, of_weights)
        at_once = "x's gradient at once, " if "x" not in case.frozen else ""
        yield f"{case.title}: {at_once}{' and '.join(of_weights)} later"


def judge_outputs(trial, got, wanted):
    for y, right in zip(got, wanted):
        if not close(y, right):
            off = told_gap(y, right) if y.shape == right.shape else kind_of(y)
            plain = F.linear(trial.xs[0], trial.weight).detach()
            why = recognise(y, {"the bias is missing": plain})
            trial.wrong(f"the output is off by up to {off}", why)


def judge_x(trial, wanted):
    for x, right in zip(trial.xs, wanted):
        if right is None:
            continue
        if x.grad is None:
            trial.wrong("after the backward the gradient of x is None", NO_X)
        if not close(x.grad, right):
            trial.wrong(f"the gradient of x is off by up to {told_gap(x.grad, right)}", "")


def judge_before(trial):
    """Nothing is done to the weights' gradients until what is in `later` is called."""
    if None in trial.later:
        trial.wrong("after the backward `later` has None", NO_FUNCTION)
    for name, weight in trial.weights().items():
        before = trial.old[name] if trial.case.before else None
        if not close(weight.grad, before):
            trial.wrong(f"right after the backward there is a gradient in {name}.grad", AT_ONCE)
    if trial.weights() and not trial.later:
        trial.wrong("after the backward `later` is empty", NOTHING_LATER)
    uses, left = trial.case.uses, len(trial.later)
    if left < uses:
        plural = "s" if left > 1 else ""
        trial.wrong(f"after {uses} backwards `later` has {left} function{plural}", FUNCTIONS_LOST)


def judge_after(trial, wanted):
    for name, tensor in {"weight": trial.weight, "bias": trial.bias}.items():
        if tensor is not None and name not in wanted and tensor.grad is not None:
            trial.wrong(f"the {name} is frozen, and has a gradient", FROZEN)
    for name, right in wanted.items():
        got = trial.weights()[name].grad
        judge_gradient(trial, name, got, right)
        if got.requires_grad:
            trial.wrong(f"{name}.grad requires a gradient itself", WITH_GRAPH)


def judge_gradient(trial, name, got, right):
    old = trial.old[name]
    wanted = right + old if trial.case.before else right
    if got is None:
        trial.wrong(f"when `later` has been called, {name}.grad is None", (
            NOT_THE_PARAMETER if trial.case.hooked
            else f"what is in `later` is to add the gradient of the {name}, too"
        ))  # fmt: skip
    if close(got.detach(), wanted):
        return
    guesses = [(ADDS, right), (f"nothing is added to {name}.grad", old)] * trial.case.before
    guesses += [(ADDS, part) for part in parts_of(trial, name)]
    off = told_gap(got, wanted) if got.shape == wanted.shape else kind_of(got)
    known = (why for why, wrong in guesses if close(got.detach(), wrong))
    trial.wrong(f"{name}.grad is off by up to {off}", next(known, ""))


def told_error(outcome) -> str:
    """What was raised, and the learner's line; PyTorch's own lines say nothing."""
    is_known = outcome.place is not None and not is_library(outcome.place.filename)
    what = f"it raised {outcome.error}: {outcome.message}"
    return f"{what}\n  at {outcome.place}" if is_known else what


def parts_of(trial, name) -> list:
    """What each use by itself adds to the gradient of a weight."""
    weight = trial.weights()[name]
    ys = [F.linear(x, trial.weight, trial.bias) for x in trial.xs]
    totals = [(y * slope).sum() for y, slope in zip(ys, trial.slopes)]
    return [torch.autograd.grad(total, weight)[0] for total in totals]


EXERCISE = Exercise(
    "8.12", "LaterWeights", examine_later_weights,
    (
        "The backward has two things to compute, and one of them nobody waits for. What does "
        "that one need, besides the gradient that comes in?",
        "forward keeps x, weight, bias and later: save_for_backward(x), and attributes of ctx. "
        "backward returns gradient @ weight, and None for the other three.",
        "ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias)): "
        "a function that needs no arguments any more, and adds what is missing.",
    ),
    lab="pipeline_parallel",
)  # fmt: skip

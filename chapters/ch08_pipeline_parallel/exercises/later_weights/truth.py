"""The right results, and the results of known mistakes."""

import torch
import torch.nn.functional as F

from coursekit.kit.results import VIEW

from .cases import read_initial_gradients

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


def right(trial) -> tuple[list, list, dict]:
    """Return the outputs, the gradients of each x, and {name: [what each use adds to it, …]}."""
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


def expect_weight_gradients(trial, place, of_uses=sum):
    """Return the initial gradients plus those that the uses add, combined by `of_uses`."""
    found = read_initial_gradients(trial, place)
    for name, parts in right(trial)[2].items():
        if None not in parts:
            found[name] = of_uses(parts) + (0 if found[name] is None else found[name])
    return found


def wrong_weights(trial, place):
    (layer,), old = trial.case.args, read_initial_gradients(trial, place)
    last = 0 if layer.reverse else -1  # the function that is called last
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
            expect_weight_gradients(trial, place, lambda parts: 2 * sum(parts)),
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


def report_gradients(trial) -> str:
    of = trial[0]
    later = [name for name, slope in of.of_weights.items() if slope is not None]
    return "x's gradient at once, " * (None not in of.of_xs) + f"{' and '.join(later)} later"

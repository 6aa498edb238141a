"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.tables import tabulate

from .cases import AFTER, TRIALS, compare, numbers_of, observe_call


def compute_known_values(case, place) -> dict:
    if case.work is not compare:
        return {}
    right = observe_call(lambda exponent, x: x**exponent, *case.args)
    return {"right": right, "wrong": wrong_gradients(*case.args)}


class Power(torch.autograd.Function):
    """A power whose gradient the mistakes add."""

    @staticmethod
    def forward(ctx, exponent, x):
        ctx.exponent = exponent
        ctx.save_for_backward(x)
        return x**exponent


def power_with_gradient(gradient) -> type[Power]:
    """Return a power whose gradient of x is gradient(grad_output, exponent, x)."""

    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return None, gradient(grad_output, ctx.exponent, x)

    return type("PowerWithGradient", (Power,), {"backward": staticmethod(backward)})


MISTAKES = {
    "this is the derivative of the power alone. Behind it more may follow: by the chain rule it is "
    "multiplied by grad_output": power_with_gradient(lambda g, p, x: p * x ** (p - 1)),
    "the exponent is not lowered by 1": power_with_gradient(lambda g, p, x: g * p * x**p),
    "the factor is missing: a derivative of a power has its exponent in front": power_with_gradient(
        lambda g, p, x: g * x ** (p - 1)
    ),
    "the gradient passes unchanged, as if the function were a sum": power_with_gradient(
        lambda g, p, x: g + 0 * x
    ),
    "grad_output is raised to the power as well: it is a factor, and no more": power_with_gradient(
        lambda g, p, x: p * (g * x) ** (p - 1)
    ),
    "grad_output is added; by the chain rule it is a factor": power_with_gradient(
        lambda g, p, x: g + p * x ** (p - 1)
    ),
    "this is the gradient of a square, whatever the exponent": power_with_gradient(
        lambda g, p, x: g * 2 * x
    ),
    "the exponent is raised by 1, as in an integral: a derivative lowers it": power_with_gradient(
        lambda g, p, x: g * p * x ** (p + 1)
    ),
    "the gradient is 0 everywhere, as if the result did not depend on x": power_with_gradient(
        lambda g, p, x: 0 * x
    ),
    "grad_output is added up: each number of it belongs to one of x": power_with_gradient(
        lambda g, p, x: g.sum() * p * x ** (p - 1)
    ),
    "grad_output is averaged: each number of it belongs to one of x": power_with_gradient(
        lambda g, p, x: g.mean() * p * x ** (p - 1)
    ),
    "only the magnitude of grad_output counts here; it has a sign": power_with_gradient(
        lambda g, p, x: g.abs() * p * x ** (p - 1)
    ),
    "p * x is raised to the power: ** comes before *, and brackets turn that "
    "round": power_with_gradient(lambda g, p, x: g * (p * x) ** (p - 1)),
    "the factor in front is the exponent itself, before it is lowered": power_with_gradient(
        lambda g, p, x: g * (p - 1) * x ** (p - 1)
    ),
    "this is the integral: asked is the derivative": power_with_gradient(
        lambda g, p, x: g * x ** (p + 1) / (p + 1)
    ),
    "this is the derivative by the exponent; asked is that by x": power_with_gradient(
        lambda g, p, x: g * x**p * x.log()
    ),
    "the sign is the other way round": power_with_gradient(lambda g, p, x: -g * p * x ** (p - 1)),
}


@tabulate(lambda: list(TRIALS.values()))
def wrong_gradients(exponent, shape, after) -> dict[str, torch.Tensor]:
    found = {}
    for why, power in MISTAKES.items():
        x = numbers_of(shape).requires_grad_()
        AFTER[after](power.apply, exponent, x).backward()
        found[why] = x.grad
    return found


NOTHING_KEPT = "what the forward has saved comes back in a tuple, here with one tensor"

NO_GRADIENT = "x gets no gradient: of the two that are returned, the second one belongs to x"


def why_other_gradient(trial) -> str:
    if trial.case.args[2] == "twice":
        return (
            "one call alone was right. Two calls have a `ctx` each: what the backward needs "
            "belongs in there, and not to the class"
        )
    return (
        "compare with the text: for exponent 3, x = [2] and grad_output = [10] it is [120]. First "
        "the derivative of the power, then the chain rule, number by number"
    )


def find_visible_mistakes(of) -> dict:
    """Return the mistakes whose gradient differs from the right one in this case."""
    right = of.right["gradient"]
    return {NO_GRADIENT: None} | {
        why: x for why, x in of.wrong.items() if not torch.allclose(x, right)
    }

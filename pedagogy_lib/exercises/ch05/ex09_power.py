"""A first function of one's own for autograd: warm-up for 5.10.

The truth is x ** exponent itself, with autograd's own backward.
"""

import torch

from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone, most_bytes
from ..kit.refused import Refused
from ..kit.tables import tabled

TRIALS = {  # exponent, shape of x, what comes after
    "the fourth power of a vector": (4, (4,), "sum"),
    "the cube of a matrix, and a factor after it": (3, (2, 3), "factor"),
    "the square root, and a square after it": (0.5, (5,), "square"),
    "twice in a row, with a layer before": (2, (3,), "twice"),
}
AFTER = {
    "sum": lambda call, exponent, x: call(exponent, x).sum(),
    "factor": lambda call, exponent, x: (
        (torch.arange(x.numel(), dtype=x.dtype).view_as(x) - 1.5) * call(exponent, x)
    ).sum(),
    "square": lambda call, exponent, x: call(exponent, x).square().sum(),
    "twice": lambda call, exponent, x: call(exponent, call(exponent, 3 * x)).sum(),
}
LARGE = (500, 100)
APPLY = torch.autograd.Function.apply.__func__


# ---- On a rank ---


def need_function(kind):
    """Raise `Refused` for what is no function of autograd with a forward and a backward."""
    is_one = isinstance(kind, type) and issubclass(kind, torch.autograd.Function)
    if is_one and getattr(kind.apply, "__func__", None) is APPLY:
        return
    raise Refused(
        f"{getattr(kind, '__name__', kind)} is no torch.autograd.Function with the apply() of "
        "torch",
        "forward and backward are to be static methods of a torch.autograd.Function, which has "
        "apply(): leave that as it is",
    )


def numbers_of(shape) -> torch.Tensor:
    return torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64).view(shape) / 3


def compare(answer, exponent, shape, after):
    need_function(answer.lab.Power)
    return seen_of(answer.lab.Power.apply, exponent, shape, after)


def known_of(case, place) -> dict:
    if case.work is not compare:
        return {}
    right = seen_of(lambda exponent, x: x**exponent, *case.args)
    return {"right": right, "wrong": wrong_gradients(*case.args)}


def seen_of(call, exponent, shape, after) -> dict:
    numbers = numbers_of(shape)
    x = numbers.clone().requires_grad_()
    y = AFTER[after](call, exponent, x)
    y.backward()
    changed = not torch.equal(x.detach(), numbers)
    return {"y": y.detach(), "gradient": x.grad, "changed": changed}


def measure_kept(answer):
    """Bytes that are kept for the backward, in times x."""
    x = torch.ones(LARGE, dtype=torch.float64, requires_grad=True)
    before, kept = most_bytes()["total"], []
    kept.append(answer.lab.Power.apply(3, x))
    return {"kept": (most_bytes()["total"] - before) / x.nbytes - 1}  # 1: the result itself


# ---- What is not right ---


class WRONG(torch.autograd.Function):
    """Right; mistakes replace its backward."""

    @staticmethod
    def forward(ctx, exponent, x):
        ctx.exponent = exponent
        ctx.save_for_backward(x)
        return x**exponent

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return None, grad_output * ctx.exponent * x ** (ctx.exponent - 1)


def with_backward(of):
    """Makes a function whose gradient of x is of(g, p, x)."""

    def make(right):
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return None, of(grad_output, ctx.exponent, x)

        return type("Other", (right,), {"backward": staticmethod(backward)})

    return make


MISTAKES = {
    "this is the derivative of the power alone. Behind it more may follow: by the chain rule it is "
    "multiplied by grad_output": with_backward(lambda g, p, x: p * x ** (p - 1)),
    "the exponent is not lowered by 1": with_backward(lambda g, p, x: g * p * x**p),
    "the factor is missing: a derivative of a power has its exponent in front": with_backward(
        lambda g, p, x: g * x ** (p - 1)
    ),
    "the gradient passes unchanged, as if the function were a sum": with_backward(
        lambda g, p, x: g + 0 * x
    ),
    "grad_output is raised to the power as well: it is a factor, and no more": with_backward(
        lambda g, p, x: p * (g * x) ** (p - 1)
    ),
    "grad_output is added; by the chain rule it is a factor": with_backward(
        lambda g, p, x: g + p * x ** (p - 1)
    ),
    "this is the gradient of a square, whatever the exponent": with_backward(
        lambda g, p, x: g * 2 * x
    ),
    "the exponent is raised by 1, as in an integral: a derivative lowers it": with_backward(
        lambda g, p, x: g * p * x ** (p + 1)
    ),
    "the gradient is 0 everywhere, as if the result did not depend on x": with_backward(
        lambda g, p, x: 0 * x
    ),
    "grad_output is added up: each number of it belongs to one of x": with_backward(
        lambda g, p, x: g.sum() * p * x ** (p - 1)
    ),
    "grad_output is averaged: each number of it belongs to one of x": with_backward(
        lambda g, p, x: g.mean() * p * x ** (p - 1)
    ),
    "only the magnitude of grad_output counts here; it has a sign": with_backward(
        lambda g, p, x: g.abs() * p * x ** (p - 1)
    ),
    "p * x is raised to the power: ** comes before *, and brackets turn that round": with_backward(
        lambda g, p, x: g * (p * x) ** (p - 1)
    ),
    "the factor in front is the exponent itself, before it is lowered": with_backward(
        lambda g, p, x: g * (p - 1) * x ** (p - 1)
    ),
    "this is the integral: asked is the derivative": with_backward(
        lambda g, p, x: g * x ** (p + 1) / (p + 1)
    ),
    "this is the derivative by the exponent; asked is that by x": with_backward(
        lambda g, p, x: g * x**p * x.log()
    ),
    "the sign is the other way round": with_backward(lambda g, p, x: -g * p * x ** (p - 1)),
}


@tabled(lambda: list(TRIALS.values()))
def wrong_gradients(exponent, shape, after) -> dict[str, torch.Tensor]:
    found = {}
    for why, make in MISTAKES.items():
        x = numbers_of(shape).requires_grad_()
        AFTER[after](make(WRONG).apply, exponent, x).backward()
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


EXERCISE = WarmExercise(
    "5.9",
    "Power",
    lab="recomputation",
    cases=[
        *(Alone(name, compare, trial) for name, trial in TRIALS.items()),
        Alone("memory", measure_kept),
    ],
    work=alone,
    known=known_of,
    found=lambda case: ("y", "gradient") if case.work is compare else ("kept",),
    facts=[
        Equals("y", lambda trial, place: trial[place].right["y"],
               called="the loss that comes of what the forward returns",
               otherwise="the forward stands there already: x ** exponent"),
        never("changed", "x is not as it was",
              "x belongs to the caller, and so does its memory: compute a new tensor"),
        Equals("gradient", lambda trial, place: trial[place].right["gradient"],
               lambda trial, place: telling(trial[place]), "x.grad",
               otherwise=why_other_gradient),
        Holds("kept", lambda times: times < 0.5,
              "{:.1f} times as much as x is kept for the backward, beside x",
              "x alone is enough: it is the caller's tensor, so keeping it takes no more memory. "
              "What the backward computes from it need not be kept"),
    ],
    told=lambda trial: (
        "nothing is kept but x" if trial.of("kept") else "value and gradient are right"
    ),
    errors={
        "incorrect number of gradients": "the forward has two inputs, exponent and x: the backward "
        "returns two gradients, in this order. That of the exponent is None",
        "different than None at position": "gradients are returned in the order of the forward's "
        "inputs: None for the exponent, which is no tensor, then that of x",
        "must be Tensor": "the gradient of x is a tensor in the shape of x",
        "invalid gradient at index": "the gradient of x has the shape of x",
        "not enough values to unpack": NOTHING_KEPT,
        "'tuple' and": NOTHING_KEPT,
        "more than one element of the written-to tensor": "grad_output belongs to autograd, and is "
        "not to be written into: compute a new tensor",
        "does not have a grad_fn": "in a backward autograd does not look: the backward computes "
        "with numbers, it does not call backward() itself",
        "has no attribute 'apply'": "Power has to stay a torch.autograd.Function: apply() is its",
        "through the graph a second time": "the backward computes with numbers, it does not call "
        "backward() itself",
    },
    hints=(
        "The derivative of x ** p is p * x ** (p - 1). With p = 3 and x = 2 that is 12.",
        "By the chain rule, multiply it by grad_output: how much the loss changes with each "
        "element of what the forward returned.",
        "The forward has two inputs, so the backward returns two gradients: None for the exponent, "
        "and then that of x.",
    ),
)  # fmt: skip


def telling(of) -> dict:
    """The mistakes that show in this case."""
    right = of.right["gradient"]
    return {NO_GRADIENT: None} | {
        why: x for why, x in of.wrong.items() if not torch.allclose(x, right)
    }

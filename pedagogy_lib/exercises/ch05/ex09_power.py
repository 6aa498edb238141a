"""A first function of one's own for autograd: warm-up for 5.10.

The truth is x ** exponent itself, with autograd's own backward.
"""

import torch

from ..kit import Equals, Holds
from ..kit.alone import Alone, WarmExercise, alone, most_bytes

TRIALS = {  # exponent, shape of x, what comes after
    "the square of a vector": (2, (4,), "sum"),
    "the cube of a matrix, and a factor after it": (3, (2, 3), "factor"),
    "the square root, and a square after it": (0.5, (5,), "square"),
    "twice in a row, with a layer before": (2, (3,), "twice"),
}
AFTER = {
    "sum": lambda call, exponent, x: call(exponent, x).sum(),
    "factor": lambda call, exponent, x: (
        torch.arange(1.0, x.numel() + 1, dtype=x.dtype).view_as(x) * call(exponent, x)
    ).sum(),
    "square": lambda call, exponent, x: call(exponent, x).square().sum(),
    "twice": lambda call, exponent, x: call(exponent, call(exponent, 3 * x)).sum(),
}
LARGE = (500, 100)


# ---- On a rank ---


def compare(answer, exponent, shape, after):
    numbers = torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64).view(shape) / 4
    found = {}
    calls = {
        "mine": answer.lab.Power.apply,
        "right": lambda exponent, x: x**exponent,
        **{why: make(WRONG).apply for why, make in MISTAKES.items()},
    }
    for name, call in calls.items():
        x = numbers.clone().requires_grad_()
        y = AFTER[after](call, exponent, x)
        y.backward()
        found[name] = {"y": y.detach(), "x.grad": x.grad}
    return {
        "y": found["mine"]["y"],
        "gradient": found["mine"]["x.grad"],
        "right": found["right"],
        "wrong": {why: found[why]["x.grad"] for why in MISTAKES},
    }


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
    "the exponent is not lowered: the derivative of x ** p is p * x ** (p - 1)": with_backward(
        lambda g, p, x: g * p * x**p
    ),
    "the factor p is missing: the derivative of x ** p is p * x ** (p - 1)": with_backward(
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
    "the exponent is raised: the derivative of x ** p is p * x ** (p - 1)": with_backward(
        lambda g, p, x: g * p * x ** (p + 1)
    ),
    "the gradient is 0 everywhere, as if the result did not depend on x": with_backward(
        lambda g, p, x: 0 * x
    ),
    "the sign is the other way round": with_backward(lambda g, p, x: -g * p * x ** (p - 1)),
}
NOTHING_KEPT = "what the forward has saved comes back in a tuple, here with one tensor"
NO_GRADIENT = "x gets no gradient: of the two that are returned, the second one belongs to x"
EXERCISE = WarmExercise(
    "5.9",
    "Power",
    lab="recomputation",
    cases=[
        *(Alone(name, compare, trial) for name, trial in TRIALS.items()),
        Alone("memory", measure_kept),
    ],
    work=alone,
    facts=[
        Equals("y", lambda trial, place: trial[place].right["y"],
               called="the loss that comes of what the forward returns",
               otherwise="the forward stands there already: x ** exponent"),
        Equals("gradient", lambda trial, place: trial[place].right["x.grad"],
               lambda trial, place: telling(trial[place]), "x.grad",
               otherwise="the derivative of x ** p is p * x ** (p - 1). By the chain rule it is "
               "multiplied by grad_output, number by number"),
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
    right = of.right["x.grad"]
    return {NO_GRADIENT: None} | {
        why: x for why, x in of.wrong.items() if not torch.allclose(x, right)
    }

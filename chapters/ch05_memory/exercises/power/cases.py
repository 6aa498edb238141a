"""The cases, and the code that runs next to the answer."""

import torch

from coursekit.kit import Rejection
from coursekit.kit.single_rank import most_bytes

TRIALS = {  # exponent, shape of x, and a key of AFTER
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


def need_function(kind):
    """Raise `Rejection` unless `kind` is an autograd Function with torch's own apply()."""
    is_one = isinstance(kind, type) and issubclass(kind, torch.autograd.Function)
    if is_one and getattr(kind.apply, "__func__", None) is APPLY:
        return
    raise Rejection(
        f"{getattr(kind, '__name__', kind)} is no torch.autograd.Function with the apply() of "
        "torch",
        "forward and backward are to be static methods of a torch.autograd.Function, which has "
        "apply(): leave that as it is",
    )


def numbers_of(shape) -> torch.Tensor:
    return torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64).view(shape) / 3


def compare(answer, exponent, shape, after):
    need_function(answer.lab.Power)
    return observe_call(answer.lab.Power.apply, exponent, shape, after)


def observe_call(call, exponent, shape, after) -> dict:
    numbers = numbers_of(shape)
    x = numbers.clone().requires_grad_()
    y = AFTER[after](call, exponent, x)
    y.backward()
    changed = not torch.equal(x.detach(), numbers)
    return {"y": y.detach(), "gradient": x.grad, "changed": changed}


def measure_kept(answer):
    """Return the bytes that are saved for the backward, as a multiple of the bytes of x."""
    x = torch.ones(LARGE, dtype=torch.float64, requires_grad=True)
    before, kept = most_bytes()["total"], []
    kept.append(answer.lab.Power.apply(3, x))
    return {"kept": (most_bytes()["total"] - before) / x.nbytes - 1}  # 1: the result itself

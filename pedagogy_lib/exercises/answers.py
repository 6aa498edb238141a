"""Answers that are numbers: got from the learner's function, compared, and recognised."""

import traceback

import torch

from ..checking import Wrong

CLOSE = {"rtol": 1e-6, "atol": 1e-7}  # a factor in float32 is no misconception


def attempt(case, function, *args):
    """The learner's result; whatever the function raises is wrong, with the learner's line."""
    try:
        return function(*args)
    except Exception as error:
        step = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error}\n    line {step.lineno}: {step.line}"
        raise Wrong(case, what) from None


def numbers_of(case, result, names, shape="") -> list[float]:
    """The result as one number for each name.

    shape  what to say of a result that has another
    """
    try:
        found = [float(value) for value in result]
    except (TypeError, ValueError, RuntimeError):
        found = None
    if found is None or len(found) != len(names):
        what = f"expected {len(names)} numbers, for {', '.join(names)}; got {result!r}"
        nothing = "what your function returns is its last line: `return …`"
        raise Wrong(case, what, nothing if result is None else shape)
    return found


def require(case, names, got, expected, guesses):
    """Raise `Wrong` at the first number that is off."""
    for name, mine, right in zip(names, got, expected):
        if not same(mine, right):
            what = f"{name}: expected {right:.10g}, got {mine:.10g}"
            raise Wrong(case, what, recognise(got, guesses))


def same(a, b) -> bool:
    a, b = (torch.as_tensor(x, dtype=torch.float64).detach() for x in (a, b))
    return a.shape == b.shape and torch.allclose(a, b, **CLOSE)


def recognise(got, guesses) -> str:
    """The first sentence in {sentence: what that misconception gives} that fits, or ""."""
    return next((why for why, wrong in guesses.items() if same(got, wrong)), "")

"""Answers that are tried in groups of ranks, and what they communicate there."""

import contextlib
import warnings

from pedagogy_lib.basics.torch_private import OperatorMode
from pedagogy_lib.measuring.bytes_of_calls import RULES, calls_of

PASSED_BY = (
    "the numbers are right, but by chance: autograd does not know dist.all_reduce and passes it "
    "by, with a warning, and later versions of PyTorch will not. AllReduce.apply, or leave, tells "
    "it what the backward is"
)


class Calls(OperatorMode):
    """The communication calls that are made under it."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in RULES:
            self.made += calls_of(func, args)
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def noting_passed():
    """Gives a list of the operators that a backward in here passes by; torch's warnings go there.

    Of a call on a tensor with a gradient torch warns in the backward alone.
    """
    passed = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield passed
    for warning in found:
        operator, unknown, _ = str(warning.message).partition(": an autograd kernel was not")
        if unknown:
            passed.append(operator)
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def parts_of(x, n, dim=0):
    """What each of n ranks has."""
    return x.tensor_split(n, dim)

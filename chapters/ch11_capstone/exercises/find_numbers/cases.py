"""Functions that the cases and the truth share."""

import torch

from pedagogy_lib.basics.units import brief


def describe_outcome(function):
    """Return a function that describes the tensor, or the ValueError, of another function."""

    def describe(files, wanted):
        try:
            got = function(files, wanted)
        except ValueError:
            if not is_missing(files, wanted):
                raise  # not intended: its text says more
            return looks("ValueError")
        if isinstance(got, torch.Tensor) and got.dim() == 1:
            return looks("nothing", str(got.dtype), got.double())
        return looks(f"it returned {brief(got)}") if isinstance(got, Exception) else got

    return describe


def is_missing(files, wanted) -> bool:
    """Return whether an address is wanted that no file has."""
    return not set(wanted.tolist()) <= {0}.union(*(of.tolist() for of, _ in files))


def looks(raises, dtype="", numbers=()) -> dict:
    numbers = torch.as_tensor(numbers, dtype=torch.float64)
    return {"raises": raises, "dtype": dtype, "numbers": numbers}

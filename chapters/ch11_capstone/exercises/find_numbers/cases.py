"""What the cases and the truth share."""

import torch

from pedagogy_lib.basics.units import brief


def describe_outcome(function):
    """A function that gives what is looked at in the tensor of another one."""

    def describe(files, wanted):
        try:
            got = function(files, wanted)
        except ValueError:
            if not is_missing(files, wanted):
                raise  # by accident: then its text says more
            return looks("ValueError")
        if isinstance(got, torch.Tensor) and got.dim() == 1:
            return looks("nothing", str(got.dtype), got.double())
        return looks(f"it returned {brief(got)}") if isinstance(got, Exception) else got

    return describe


def is_missing(files, wanted) -> bool:
    """Whether an address is wanted that no file has."""
    return not set(wanted.tolist()) <= {0}.union(*(of.tolist() for of, _ in files))


def looks(raises, dtype="", numbers=()) -> dict:
    numbers = torch.as_tensor(numbers, dtype=torch.float64)
    return {"raises": raises, "dtype": dtype, "numbers": numbers}

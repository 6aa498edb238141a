"""What runs next to the answer."""

import random
from collections.abc import Iterator

import torch


def generators(answer) -> tuple:
    """Return the states of the global generators of the answer's process."""
    return torch.get_rng_state(), random.getstate()


def describe_iterators(answer):
    """What can be gone through once alone is told by its kind."""

    def samples(*call):
        found = answer(*call)
        return f"a {type(found).__name__}" if isinstance(found, Iterator) else found

    return samples

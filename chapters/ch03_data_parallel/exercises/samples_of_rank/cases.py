"""What runs next to the answer."""

import random

import torch


def generators(answer) -> tuple:
    """Return the states of the global generators of the answer's process."""
    return torch.get_rng_state(), random.getstate()

"""What went into a sum, in words: whose numbers, and how often."""

import itertools

import torch

from .trials import same


def contributions(total, parts) -> tuple[int, ...] | None:
    """How often each of `parts` has gone into `total`, from 0 to 2 times; None if no way fits."""
    for times in itertools.product(range(3), repeat=len(parts)):
        if same(total, sum((t * p for t, p in zip(times, parts)), torch.zeros_like(total))):
            return times
    return None


def told_contributions(times) -> str:
    """`rank 1 is missing, rank 2 counts twice`."""
    missing = [f"rank {place} is missing" for place, t in enumerate(times) if t == 0]
    twice = [f"rank {place} counts twice" for place, t in enumerate(times) if t == 2]
    return ", ".join(missing + twice)


def ranks_text(places) -> str:
    places = list(places)
    return ("rank " if len(places) == 1 else "ranks ") + ", ".join(map(str, places))

"""The cases, and the code that runs next to the answer."""

from functools import partial

import torch
from torch import nn

from coursekit.kit.single_rank import Alone

from ..shared.accumulation import HIDDEN, accumulate, mean_loss, model_of

FEATURES, CLASSES = 6, 3

TIED = "of 4 4 4 4, a weight is shared"

SAMPLES = {  # the first case tells misconceptions apart
    "micro-batches of 8 8 5 samples": [8, 8, 5],
    TIED: [4, 4, 4, 4],
    "of 9 and a single one": [9, 1],
    "a single micro-batch": [6],
}


def make_model(is_tied=False):
    return model_of(nn.Linear(FEATURES, HIDDEN), CLASSES, is_tied)


def samples_of(sizes):
    source = torch.Generator().manual_seed(sum(sizes))
    draw = lambda size: torch.randn(size, FEATURES, generator=source, dtype=torch.float64)  # noqa: E731
    return [(draw(size), torch.randint(CLASSES, (size,), generator=source)) for size in sizes]


def case_of(name, sizes, *stale):
    make = partial(make_model, is_tied=name == TIED)
    return Alone(name, accumulate, (make, (mean_loss,), samples_of(sizes), *stale))

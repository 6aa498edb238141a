"""Gradients of micro-batches of any size."""

from functools import partial

import torch
from torch import nn

from ..kit.alone import Alone, WarmExercise, alone
from .accumulation import (
    ACCUMULATED,
    CALLERS,
    HIDDEN,
    STALE,
    UNTIL_THEN,
    accumulate,
    found_on,
    known_of,
    mean_loss,
    measure_memory,
    model_of,
    told,
)

FEATURES, CLASSES = 6, 3
TIED = "of 4 4 4 4, a weight is shared"
SAMPLES = {  # the first tells misconceptions apart
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


def why(rows) -> dict:
    like_first = (rows.in_piece == rows.in_piece[0]).double()
    ones, count = torch.ones_like(rows.losses), len(rows.pieces)
    factors = {
        "each micro-batch counts the same, instead of each sample: a mean of means. A sample of "
        "a small micro-batch then counts too much": ones / count / rows.in_piece,
        "the means of the micro-batches are summed: that is larger than their mean, about as "
        "many times as there are micro-batches": ones / rows.in_piece,
        "this is the sum over all samples; divide by how many they are": ones,
        "you divide by the number of micro-batches where the number of samples belongs":
            ones / count,
        "only the last micro-batch has counted: the gradients are cleared in each round":
            rows.last / rows.in_piece,
        "only the last micro-batch has counted, with its right share: the gradients are cleared "
        "in each round": rows.last / len(ones),
        "you divide by how many numbers the inputs have; a sample has several of them":
            ones / sum(inputs.numel() for inputs, _ in rows.pieces),
        "micro-batches of another size than the first are left out; every sample counts":
            like_first / like_first.sum(),
        "you take all micro-batches to be as large as the first; count all samples":
            ones / rows.in_piece[0] / count,
        "all is divided by the size of the last micro-batch": ones / rows.in_piece[-1],
        "all is divided by the size of the first micro-batch": ones / rows.in_piece[0],
        UNTIL_THEN: ones / rows.until_then,
        "this is the cross-entropy. What loss_fn computes is the caller's choice; its mean times "
        "the samples is their sum, whatever it is": ones / len(ones) / CALLERS,
    }  # fmt: skip
    return {sentence: (factor * rows.losses).sum() for sentence, factor in factors.items()}


def case_of(name, sizes, *stale):
    make = partial(make_model, is_tied=name == TIED)
    return Alone(name, accumulate, (make, (mean_loss,), samples_of(sizes), *stale))


EXERCISE = WarmExercise(
    "1.4",
    "accumulate",
    lab="gradient_accumulation",
    cases=[
        *(case_of(name, sizes) for name, sizes in SAMPLES.items()),
        case_of("of 5 2, with gradients of an earlier step still there", [5, 2], STALE),
        Alone("memory, 8 micro-batches", measure_memory,
              (make_model, (mean_loss,), samples_of([8] * 8))),
    ],
    work=alone,
    known=partial(known_of, why),
    found=found_on,
    facts=ACCUMULATED,
    told=told,
    hints=(
        "Exercise 1.3 is inside: how much does each micro-batch's mean count?",
        "Count all samples first, before the loop. Inside it: forward, loss times its share, "
        "backward.",
        "Call backward() in each round, so that its graph can go. Keep loss.detach() alone, and "
        "make a number of the sum at the end: on a GPU, each loss.item() waits. Begin with "
        "model.zero_grad().",
    ),
)  # fmt: skip

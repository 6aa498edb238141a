"""The right results, and the results of known mistakes."""

import torch

from ..shared.accumulation import CALLERS
from ..shared.accumulation_truth import UNTIL_THEN


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

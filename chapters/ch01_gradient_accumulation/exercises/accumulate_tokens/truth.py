"""The right results, and the results of known mistakes."""

import torch
import torch.nn.functional as F

from ..shared.accumulation import PADDING
from ..shared.accumulation_truth import UNTIL_THEN
from .cases import WORDS

UNFLATTENED = "flatten: logits (n, vocabulary), targets (n)"

SPREAD = "a row of the flattened logits has to hold all scores of one token."


def why(rows) -> dict:
    ones, all_counted = torch.ones_like(rows.losses), rows.counted.sum()
    empty = [k for k, (_, targets) in enumerate(rows.pieces) if (targets == PADDING).all()]
    before_empty = rows.piece < min([*empty, len(rows.pieces)])
    factors = {
        "each micro-batch counts the same: a mean of means. A token among few then counts more "
        "than a token among many": ones / len(rows.pieces) / rows.in_piece,
        "micro-batches count by their number of sentences, as in exercise {{accumulate}}; tokens "
        "are to "
        "count the same, so count tokens": rows.in_rows / len(ones) / rows.in_piece,
        "each sentence counts the same: tokens of a short one then count more":
            ones / len(ones) / rows.counted.clamp(min=1),
        "you divide by all positions, padding included; only targets that are not PADDING count":
            ones / rows.positions,
        "you count targets above 0; 0 is a token too, and only PADDING does not count":
            ones / sum((targets > 0).sum() for _, targets in rows.pieces),
        "you count inputs that are not 0; 0 is a token too. Only targets that are PADDING do not "
        "count": ones / sum((tokens != 0).sum() for tokens, _ in rows.pieces),
        "you count targets that are not 0; 0 is a token too, and only PADDING does not count":
            ones / sum((targets != 0).sum() for _, targets in rows.pieces),
        "you divide by the number of sentences; divide by the number of tokens that count":
            ones / len(ones),
        "this is the sum over all tokens; divide by how many count": ones,
        "the means of the micro-batches are summed": ones / rows.in_piece,
        UNTIL_THEN: ones / rows.until_then,
        "what comes after a micro-batch of padding only is lost: pass over that one alone":
            before_empty / all_counted,
        "only the last micro-batch has counted: the gradients are cleared in each round":
            rows.last / rows.in_piece,
        "only the last micro-batch has counted, with its right share: the gradients are cleared "
        "in each round": rows.last / all_counted,
    }  # fmt: skip
    of_others = {sentence: loss_of(rows, of_logits, of_targets)
                 for sentence, (of_logits, of_targets) in OTHER_LOSSES.items()}  # fmt: skip
    left = sum((targets[:, 1:] != PADDING).sum() for _, targets in rows.pieces)
    leaves_out = f"{SHIFTED}, which leaves out a token of each sentence"
    return {sentence: (factor * rows.losses).sum() for sentence, factor in factors.items()} | {
        leaves_out: of_others[SHIFTED] / left,
        **{sentence: loss / all_counted for sentence, loss in of_others.items()},
    }


def loss_of(rows, of_logits, of_targets):
    """Return the summed cross-entropy of `of_logits(logits)` and `of_targets(targets)`."""
    return sum(
        F.cross_entropy(of_logits(rows.model(tokens)), of_targets(targets), reduction="sum")
        for tokens, targets in rows.pieces
    )


def reshape_to_rows(x):
    """Reshape to one row of WORDS numbers per token, in the given order."""
    return x.reshape(-1, WORDS)


def flatten_targets(x):
    return x.flatten()


SHIFTED = "targets are the next tokens already: logits and targets are not to be shifted"

OTHER_LOSSES = {  # {misconception: (function of the logits, function of the targets)}
    SHIFTED: (lambda x: reshape_to_rows(x[:, :-1]), lambda x: x[:, 1:].flatten()),
    "logits and targets are in different orders: flatten both as they are, sentence after "
    "sentence, and transpose neither": (
        lambda x: reshape_to_rows(x.transpose(0, 1)),
        flatten_targets,
    ),
    "scores get to other tokens than their own: reshape() and view() cut the numbers anew, and "
    "exchange no axes. That is what transpose() does": (
        lambda x: x.reshape(len(x), -1, x.shape[1]),
        lambda x: x,
    ),
    "cross_entropy takes the scores as they are: it makes probabilities of them by itself": (
        lambda x: reshape_to_rows(x.softmax(-1)),
        flatten_targets,
    ),
    "the targets change their order, and the logits do not: flatten both as they are": (
        reshape_to_rows,
        lambda x: x.T.flatten(),
    ),
    f"{SPREAD} Here two axes change places before that": (
        lambda x: reshape_to_rows(x.transpose(1, 2)),
        flatten_targets,
    ),
    f"{SPREAD} Here the axis of the vocabulary comes first": (
        lambda x: reshape_to_rows(x.permute(2, 0, 1)),
        flatten_targets,
    ),
    f"{SPREAD} Here sentences and vocabulary change places": (
        lambda x: reshape_to_rows(x.transpose(0, 2)),
        flatten_targets,
    ),
    f"{SPREAD} Here one row for each word is cut, and exchanged for a column": (
        lambda x: reshape_to_rows(x.reshape(WORDS, -1).T),
        flatten_targets,
    ),
}

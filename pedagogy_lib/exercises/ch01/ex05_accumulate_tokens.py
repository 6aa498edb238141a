"""Gradients of sentences, where each token counts the same."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from ..kit.alone import Alone, WarmExercise, alone
from .accumulation import (
    ACCUMULATED,
    HIDDEN,
    PADDING,
    STALE,
    UNTIL_THEN,
    accumulate,
    found_on,
    known_of,
    measure_memory,
    model_of,
    told,
)

WORDS = 8  # no sentence is as long
TIED = "no padding, a weight is shared"
SENTENCES = {  # the first tells misconceptions apart
    "sentences of 7 1 4, of 3, of 2 2 tokens": [[7, 1, 4], [3], [2, 2]],
    TIED: [[4, 4], [4, 4]],
    "a single micro-batch, with padding": [[6, 2, 3]],
    "long sentences, then short ones": [[9, 8], [2, 1]],
    "a micro-batch of padding only": [[5, 3], [0, 0], [4, 2]],
}
UNFLATTENED = "flatten: logits (n, vocabulary), targets (n)"
SPREAD = "a row of the flattened logits has to hold all scores of one token."


def make_model(is_tied=False):
    return model_of(nn.Embedding(WORDS, HIDDEN), WORDS, is_tied)


def sentences_of(lengths):
    source = torch.Generator().manual_seed(8 + len(lengths))  # wrong counts differ in the first
    return [rectangle(some, source) for some in lengths]


def rectangle(lengths, source):
    """Sentences padded to the longest, at least 2; the padded tokens are 0, their targets −100."""
    shape = len(lengths), max(*lengths, 2)
    tokens, targets = (torch.randint(WORDS, shape, generator=source) for _ in range(2))
    for row, length in enumerate(lengths):
        tokens[row, length:], targets[row, length:] = 0, PADDING
    return tokens, targets


def why(rows) -> dict:
    ones, all_counted = torch.ones_like(rows.losses), rows.counted.sum()
    empty = [k for k, (_, targets) in enumerate(rows.pieces) if (targets == PADDING).all()]
    before_empty = rows.piece < min([*empty, len(rows.pieces)])
    factors = {
        "each micro-batch counts the same: a mean of means. A token among few then counts more "
        "than a token among many": ones / len(rows.pieces) / rows.in_piece,
        "micro-batches count by their number of sentences, as in exercise 1.4; tokens are to "
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
    """The summed cross-entropy of what is made of the logits and of the targets."""
    return sum(
        F.cross_entropy(of_logits(rows.model(tokens)), of_targets(targets), reduction="sum")
        for tokens, targets in rows.pieces
    )


def in_rows(x):
    """A row of WORDS numbers for each token, in the order in which they are."""
    return x.reshape(-1, WORDS)


def as_they_are(x):
    return x.flatten()


SHIFTED = "targets are the next tokens already: logits and targets are not to be shifted"
OTHER_LOSSES = {  # what was misunderstood: what it makes of logits, and of targets
    SHIFTED: (lambda x: in_rows(x[:, :-1]), lambda x: x[:, 1:].flatten()),
    "logits and targets are in different orders: flatten both as they are, sentence after "
    "sentence, and transpose neither": (lambda x: in_rows(x.transpose(0, 1)), as_they_are),
    "scores get to other tokens than their own: reshape() and view() cut the numbers anew, and "
    "exchange no axes. That is what transpose() does":
        (lambda x: x.reshape(len(x), -1, x.shape[1]), lambda x: x),
    "cross_entropy takes the scores as they are: it makes probabilities of them by itself":
        (lambda x: in_rows(x.softmax(-1)), as_they_are),
    "the targets change their order, and the logits do not: flatten both as they are":
        (in_rows, lambda x: x.T.flatten()),
    f"{SPREAD} Here two axes change places before that":
        (lambda x: in_rows(x.transpose(1, 2)), as_they_are),
    f"{SPREAD} Here the axis of the vocabulary comes first":
        (lambda x: in_rows(x.permute(2, 0, 1)), as_they_are),
    f"{SPREAD} Here sentences and vocabulary change places":
        (lambda x: in_rows(x.transpose(0, 2)), as_they_are),
    f"{SPREAD} Here one row for each word is cut, and exchanged for a column":
        (lambda x: in_rows(x.reshape(WORDS, -1).T), as_they_are),
}  # fmt: skip


def case_of(name, lengths, *stale):
    make = partial(make_model, is_tied=name == TIED)
    return Alone(name, accumulate, (make, (), sentences_of(lengths), *stale))


EXERCISE = WarmExercise(
    "1.5",
    "accumulate_tokens",
    lab="gradient_accumulation",
    cases=[
        *(case_of(name, lengths) for name, lengths in SENTENCES.items()),
        case_of("two of them, with gradients of an earlier step still there", [[5, 1], [2]], STALE),
        Alone("memory, 8 micro-batches", measure_memory,
              (make_model, (), sentences_of([[9, 9]] * 8))),
    ],
    work=alone,
    known=partial(known_of, why),
    found=found_on,
    facts=ACCUMULATED,
    told=told,
    errors=dict.fromkeys(
        ("Expected target size", "multi-target not supported", "to match target batch_size"),
        UNFLATTENED,
    ),
    hints=(
        "Which number does the mean divide by? Not sentences, not positions: targets that "
        "are not PADDING, in all micro-batches together.",
        "F.cross_entropy(…, reduction=\"sum\") ignores targets of −100 and does not divide.",
        "It wants logits (n, vocabulary) and targets (n): flatten both, model(tokens)"
        ".flatten(0, 1) and targets.flatten().",
    ),
)  # fmt: skip

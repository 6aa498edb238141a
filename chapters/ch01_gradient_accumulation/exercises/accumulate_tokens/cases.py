"""The cases, and the code that runs next to the answer."""

from functools import partial

import torch
from torch import nn

from coursekit.kit.single_rank import Alone

from ..shared.accumulation import HIDDEN, PADDING, accumulate, model_of

WORDS = 8  # size of the vocabulary; no micro-batch is padded to this length

TIED = "no padding, a weight is shared"

SENTENCES = {  # the first case tells misconceptions apart
    "sentences of 7 1 4, of 3, of 2 2 tokens": [[7, 1, 4], [3], [2, 2]],
    TIED: [[4, 4], [4, 4]],
    "a single micro-batch, with padding": [[6, 2, 3]],
    "long sentences, then short ones": [[9, 8], [2, 1]],
    "a micro-batch of padding only": [[5, 3], [0, 0], [4, 2]],
}


def make_model(is_tied=False):
    return model_of(nn.Embedding(WORDS, HIDDEN), WORDS, is_tied)


def sentences_of(lengths):
    source = torch.Generator().manual_seed(8 + len(lengths))  # the first case tells counts apart
    return [rectangle(some, source) for some in lengths]


def rectangle(lengths, source):
    """Draw sentences padded to the longest, at least 2; padded tokens are 0, their targets −100."""
    shape = len(lengths), max(*lengths, 2)
    tokens, targets = (torch.randint(WORDS, shape, generator=source) for _ in range(2))
    for row, length in enumerate(lengths):
        tokens[row, length:], targets[row, length:] = 0, PADDING
    return tokens, targets


def case_of(name, lengths, *stale):
    make = partial(make_model, is_tied=name == TIED)
    return Alone(name, accumulate, (make, (), sentences_of(lengths), *stale))

"""The right results, and the results of known mistakes."""

import torch.nn.functional as F

from .cases import CONTEXT, EQUAL_SHARES, NO_GRAPH, mean_loss

WHOLE_NUMBER = (
    "this divides by the number of micro-batches, which is right only if all are equally large. "
    "How many like this one go into the batch need not be a whole number: what share of the "
    "batch's samples has it?"
)


def truth(logits, y, n):
    return F.cross_entropy(logits.mT, y, reduction="none").sum() / n / CONTEXT


MISTAKES = [
    ("each micro-batch is taken for the whole batch. The gradients of the micro-batches are "
     "added up, and nobody divides. Adam hides it: its steps do not depend on how large "
     "gradients are", lambda x, y, n: mean_loss(x, y)),
    (f"{EQUAL_SHARES} And a number in the code is right for one batch alone",
     lambda x, y, n: mean_loss(x, y) / 4),
    (WHOLE_NUMBER, lambda x, y, n: mean_loss(x, y) / (n // len(y))),
    (WHOLE_NUMBER, lambda x, y, n: mean_loss(x, y) / -(-n // len(y))),
    ("the mean is divided by the micro-batch's samples once more: it is a mean already",
     lambda x, y, n: mean_loss(x, y) / len(y)),
    ("the mean is divided by the samples of the batch. As a mean it has lost how many samples "
     "it is of: len(targets)", lambda x, y, n: mean_loss(x, y) / n),
    ("the sum over the tokens is divided by samples. mean_loss is a mean over tokens, and a "
     "sample has several", lambda x, y, n: mean_loss(x, y) * y.numel() / n),
    ("this is divided by the tokens of a sample, too: mean_loss is their mean already",
     lambda x, y, n: mean_loss(x, y) * len(y) / n / CONTEXT),
    ("upside down: the share is the micro-batch's samples divided by those of the batch",
     lambda x, y, n: mean_loss(x, y) * n / len(y)),
    ("this is the sum over the samples of the micro-batch; the batch's mean is that of all, "
     "divided by batch_samples", lambda x, y, n: mean_loss(x, y) * len(y)),
    ("this is the sum over all tokens; asked is a part of their mean",
     lambda x, y, n: mean_loss(x, y) * y.numel()),
    ("tokens are counted where samples are meant: targets.shape[1] is how many tokens a sample "
     "has, len(targets) how many samples there are",
     lambda x, y, n: mean_loss(x, y) * y.shape[1] / n),
    ("this is the share of all other micro-batches",
     lambda x, y, n: mean_loss(x, y) * (1 - len(y) / n)),
    ("the share counts twice: once is enough",
     lambda x, y, n: mean_loss(x, y) * (len(y) / n) ** 2),
    (NO_GRAPH, lambda x, y, n:
        (mean_loss(x, y) * len(y) / n).detach().requires_grad_()),
]  # fmt: skip

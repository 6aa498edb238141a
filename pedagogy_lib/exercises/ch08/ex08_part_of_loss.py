"""What a micro-batch adds to the loss of the batch.

The truth is one process that computes the mean loss of the whole batch.
"""

from functools import partial

import torch
import torch.nn.functional as F

from ...basics.closeness import close_in_float32
from ..kit import Formula
from ..kit.differences import ratio
from ..kit.tables import Table
from .ex06_stage import draw

FINDS_A_BUG = True

LETTERS, CONTEXT = 7, 5
NO_GRAPH = (
    "the loss has lost its graph: .item(), float() and .detach() give a number that autograd knows "
    "nothing of"
)
ONE_NUMBER = "what a micro-batch adds is one number: a mean over its tokens, times its share"
EQUAL_SHARES = (
    "every micro-batch has the same share, which is right if they are equally large. Here a sample "
    "of a small one counts more than one of a large one: what share of the batch's samples has it?"
)


WHOLE_NUMBER = (
    "this divides by the number of micro-batches, which is right only if all are equally large. "
    "How many like this one go into the batch need not be a whole number: what share of the "
    "batch's samples has it?"
)


def mean_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batch(part_of_loss, *sizes) -> list[float]:
    """The loss of a batch, added up from its micro-batches, and its gradient in all logits."""
    samples = sum(sizes)
    logits = draw(40, samples, CONTEXT, LETTERS).requires_grad_()
    targets = (draw(41, samples, CONTEXT) * 100).long() % LETTERS
    parts = zip(logits.split(sizes), targets.split(sizes))
    total = sum(part_of_loss(*part, samples) for part in parts)
    (slopes,) = torch.autograd.grad(total, [logits], materialize_grads=True)
    return [total.item(), *slopes.flatten().tolist()]


def in_one_process(*sizes) -> list[float]:
    return batch(lambda logits, targets, samples: mean_loss(logits, targets), sum(sizes))


def differs(call, wanted, got) -> str:
    factor = ratio(torch.tensor(got[1:]), torch.tensor(wanted[1:]))
    told = f"{factor:.4g} times those of one process" if factor else "not those of one process"
    told = "right" if factor and close_in_float32(factor, 1.0) else told
    return f"the loss is {got[0]:.8g}, expected {wanted[0]:.8g}; the gradients are {told}"


def told(calls, values) -> str:
    return f"the gradients and the loss of one process, {values[0][0]:.4f}"


class OfBatches(Formula):
    """A formula for each micro-batch, which is judged by what a batch comes to."""

    def as_judged(self):
        if isinstance(self.truth, Table):  # of the arguments of cases
            return Formula(**vars(self))
        mistakes = [(why, partial(batch, function)) for why, function in self.mistakes]
        return Formula(**vars(self) | {"truth": in_one_process, "mistakes": mistakes})

    def examine(self, answer):
        return self.as_judged().examine(partial(batch, answer))


SIZES = [(2, 2, 2, 2), (4, 3, 1), (3,)]
EXERCISE = OfBatches(
    "8.8",
    "part_of_loss",
    cases={f"micro-batches of {' '.join(map(str, of))} samples": [of] for of in SIZES},
    truth=lambda logits, y, n: F.cross_entropy(logits.mT, y, reduction="none").sum() / n / CONTEXT,
    told=told,
    differs=differs,
    errors={
        "float": NO_GRAPH,
        "does not have a grad_fn": NO_GRAPH,
        "'NoneType'": "it returned None: a function without `return` does",
        "implicitly created only for scalar": ONE_NUMBER,
        "'tuple'": ONE_NUMBER,
        "a second time": "the loss goes back elsewhere, once for each micro-batch: return it, and "
        "call no backward() here",
        "modified by an inplace operation": "logits and targets belong to the caller: look at what "
        "the function is given, and leave it as it is",
        "'mean_loss' is not defined": "run the cell that defines mean_loss first",
        "input batch_size": "mean_loss takes logits (samples, context, characters) and targets "
        "(samples, context) as they are",
    },
    mistakes=[
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
    ],
    hints=(
        "Gradients of micro-batches are added up. What has to be added up, so that the sum is "
        "the mean over the whole batch?",
        "A micro-batch's mean is a sum divided by its own samples; it should have been divided "
        "by those of the batch.",
        "So multiply the mean by len(targets) / batch_samples. With 1/m it is right only as "
        "long as all micro-batches are equally large.",
    ),
)  # fmt: skip

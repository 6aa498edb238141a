"""Data and functions that the cases and the truth share."""

import torch
import torch.nn.functional as F

from ..stage.cases import draw

LETTERS, CONTEXT = 7, 5

NO_GRAPH = (
    "the loss has lost its graph: .item(), float() and .detach() give a number that autograd knows "
    "nothing of"
)


def mean_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


EQUAL_SHARES = (
    "every micro-batch has the same share, which is right if they are equally large. Here a sample "
    "of a small one counts more than one of a large one: what share of the batch's samples has it?"
)


def batch(part_of_loss, *sizes) -> list[float]:
    """Return a batch's loss, summed over micro-batches, then the gradients of all logits."""
    samples = sum(sizes)
    logits = draw(40, samples, CONTEXT, LETTERS).requires_grad_()
    targets = (draw(41, samples, CONTEXT) * 100).long() % LETTERS
    parts = zip(logits.split(sizes), targets.split(sizes))
    total = sum(part_of_loss(*part, samples) for part in parts)
    (slopes,) = torch.autograd.grad(total, [logits], materialize_grads=True)
    return [total.item(), *slopes.flatten().tolist()]

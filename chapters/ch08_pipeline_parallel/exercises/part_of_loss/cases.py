"""What the cases and the truth share."""

import torch.nn.functional as F

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

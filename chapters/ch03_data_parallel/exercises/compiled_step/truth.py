"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.reference_training import batch_of, slopes, uneven_loss

from .cases import STEPS, Small


def table_of(trial):
    """Return the gradients of each rank's samples in each step, (steps, ranks, elements)."""
    model = Small(*trial.case.args)
    return torch.stack([
        torch.stack([slopes(model, batch_of(rank, step), uneven_loss) for rank in trial.case.ranks])
        for step in range(STEPS)
    ])  # fmt: skip


def mean_gradients(trial, place):
    return list(table_of(trial).mean(1))


def wrong_gradients(trial, place):
    n, table = trial.n, table_of(trial)
    mean, own = table.mean(1), table[:, place]
    alone = (
        "each rank has the gradient of its own samples, and replicas drift apart: the forward does "
        "not go through DDP's, so that DDP prepares no all-reduce, or the step is under no_sync. "
        "(An average of weights is none of gradients.)"
    )
    twice = (
        "DDP averages over the ranks, and the loss is divided by their number once more: here the "
        "gradient is too small by that factor"
    )
    piled = "nothing clears the old gradients: the second step adds to those of the first"
    return {
        alone: list(own),
        "each rank has a part of the gradient of its own samples. Two mistakes are left: the "
        "forward does not go through DDP's, and the loss is divided by the number of ranks":
            list(own / n),
        "all ranks have rank 0's gradient; asked is the mean of all": list(table[:, 0]),
        twice: list(mean / n),
        "this is the sum over the ranks; asked is their mean": list(mean * n),
        piled: list(mean.cumsum(0)),
        "nothing is in `.grad` of `model`. Are gradients cleared after the backward, or do they "
        "land in a copy? step() clears gradients before its backward, not after it":
            list(torch.zeros_like(mean)),
    }  # fmt: skip


def own_losses(trial, place):
    model, rank = Small(*trial.case.args), trial.case.ranks[place]
    batches = [batch_of(rank, step) for step in range(STEPS)]
    return [uneven_loss(model(inputs), targets).item() for inputs, targets in batches]


def wrong_losses(trial, place):
    each = [own_losses(trial, k) for k in range(trial.n)]
    own = each[place]
    return {
        "step() returns a part of this rank's loss: it is divided by the number of ranks":
            [loss / trial.n for loss in own],
        "step() returns the mean over the ranks; asked is this rank's loss":
            [sum(losses) / trial.n for losses in zip(*each)],
        "step() returns nothing: this rank's loss is asked": [None] * STEPS,
    }  # fmt: skip


def most_bytes(trial, place):
    """Return the bytes that a rank has to send; None where headers are most of what it sends."""
    numel = sum(parameter.numel() for parameter in Small(*trial.case.args).parameters())
    return bool(trial.case.args) and STEPS * 2 * (1 - 1 / trial.n) * 8 * numel + 8192

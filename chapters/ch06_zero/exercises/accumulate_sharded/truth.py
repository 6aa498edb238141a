"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.reference_training import WRONG_LOSSES, slopes, uneven_loss

from ..prepare.cases import BLOCKS, Small
from .cases import pieces_of


def table_of(trial, loss_fn=uneven_loss):
    """Return the gradients of each rank's micro-batches, (ranks, micro-batches, elements)."""
    model = Small(0)
    return torch.stack([
        torch.stack([slopes(model, piece, loss_fn) for piece in pieces_of(rank, trial.case)])
        for rank in trial.case.ranks
    ])  # fmt: skip


def mean_gradient(trial, place):
    return table_of(trial).mean((0, 1))


def wrong_gradients(trial, place):
    n, (count,), table = trial.n, trial.case.args, table_of(trial)
    mean, last = table.mean((0, 1)), table[:, -1].mean(0)
    samples = len(pieces_of(trial.case.ranks[0], trial.case)[0][0])
    return {
        "the micro-batches are summed up: nothing is divided by how many there are": count * mean,
        "the loss is divided by the number of ranks, too. FSDP2 has averaged over them": mean / n,
        "this is the sum over the ranks: FSDP2 gives the mean, and something multiplies it":
            n * mean,
        "it is divided by the number of micro-batches twice": mean / count,
        "the loss is divided by the number of samples, too: loss_fn is a mean over them already":
            mean / samples,
        "only the last micro-batch counts: something clears the gradients of those before it":
            last / count,
        "only the last micro-batch counts, as if it were all": last,
        "only the first micro-batch counts: is the sync on in the first backward? It has to be on "
        "in the last": table[:, 0].mean(0) / count,
        "the last micro-batch is missing: is the sync on in the backward before it? It has to be "
        "on in the last": table[:, :-1].mean(0).sum(0) / count,
        "the last micro-batch is left out, and the one before it counts twice":
            (table[:, :-1].mean(0).sum(0) + table[:, -2:][:, 0].mean(0)) / count,
        "only the last loss is divided by the number of micro-batches":
            table[:, :-1].mean(0).sum(0) + last / count,
        **{why: table_of(trial, loss_fn).mean((0, 1)) for why, loss_fn in WRONG_LOSSES.items()},
    }  # fmt: skip


def why_reduced(trial, place) -> str:
    count, found = trial.case.args[0], trial[place].reduced
    if found == count * (BLOCKS + 1):
        return (
            "each micro-batch reduces: FSDP2 does so in every backward, unless "
            "set_requires_gradient_sync(False) stands before it. set_is_last_backward(False) only "
            "lets it wait for the result later"
        )
    if found < BLOCKS + 1:
        return "units are missing: the setting is for the model, and for all units in it"
    return (
        "some units reduce in each micro-batch: was the setting changed for the root alone, with "
        "recurse=False, or after a backward had begun?"
    )

"""The right results for micro_batches.py, and the results of known mistakes."""

import torch

from coursekit.kit.reference_training import slopes, uneven_loss


def table_of(model, pieces, loss_fn=uneven_loss):
    """Return the gradients of each rank's micro-batches: (ranks, micro-batches, parameters)."""
    return torch.stack([
        torch.stack([slopes(model, piece, loss_fn) for piece in own]) for own in pieces
    ])  # fmt: skip


def sum_weighted(table, share, place):
    """Return the sum of all gradients of a table, each times its share; see `shares`."""
    return torch.einsum("rm,rmp->p", share, table.roll(-place, 0))


def make_send_reason(number, once_for_each, otherwise):
    """Return a diagnosis for `Sends`: of gradients sent once per micro-batch, or otherwise.

    number  takes a trial and returns the number of micro-batches of a rank
    """

    def why(trial, times) -> str:
        told = once_for_each if round(times) == number(trial) else otherwise
        return told.format(number=number(trial), times=f"{times:.2f}")

    return why


def shares(n, pieces):
    """Return {sentence: the weights of the gradients of each rank's micro-batches}.

    Shapes  (n, pieces), the rank's own first
    """
    even, own = torch.ones(n, pieces).double() / pieces, torch.zeros(n, pieces).double()
    own[0] = 1 / pieces
    first, last = torch.zeros(pieces).double(), torch.zeros(pieces).double()
    first[0] = last[-1] = 1
    mean, running = even / n, n ** torch.arange(pieces).flip(0).double()
    return {
        "only the last micro-batch is averaged over the ranks; of the others, each rank has its "
        "own sum: so each steps another way": own * (1 - last) + mean * last,
        "the last micro-batch is not averaged over the ranks, only those before it: of the last, "
        "each rank has its own gradient": own * last + mean * (1 - last),
        "only the first micro-batch is averaged over the ranks; of the others, each rank has its "
        "own sum": own * (1 - first) + mean * first,
        "nothing is averaged over the ranks: each has the mean over its own micro-batches": own,
        "nothing is averaged over the ranks, and nothing divided by the number of micro-batches":
            own * pieces,
        "this is the sum over the ranks: divide by their number": even,
        **({"this is the sum over the ranks, divided by 2: is their number written in?": even / 2}
           if n != 2 else {}),
        "this is the sum over the micro-batches: divide by their number": mean * pieces,
        "this is the sum over all ranks and micro-batches; asked is the mean": even * pieces,
        "this is divided by the number of micro-batches twice": mean / pieces,
        "this is divided by the number of ranks twice": mean / n,
        "only the last micro-batch counts: what the others gave is overwritten, or set back":
            mean * last,
        "only the last micro-batch counts, as if it were all: what the others gave is overwritten, "
        "or set back": mean * pieces * last,
        "what the ranks have summed is summed again in each round: the first micro-batch counts "
        "most": even * running,
        "what the ranks have summed is summed again in each round, and divided once: the first "
        "micro-batch counts most": mean * running,
    }  # fmt: skip

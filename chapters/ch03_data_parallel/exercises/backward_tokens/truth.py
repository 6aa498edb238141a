"""The right results, and the results of known mistakes."""

import torch
import torch.nn.functional as F

from coursekit.kit import complains
from coursekit.kit.reference_training import flat

from .cases import LARGE, OF_LARGE, PADDING, model_of, pieces_of, summarise_gradient

ONE_NUMBER = 500  # bytes that a rank may send besides the gradients: one number with its headers


def tables(lengths, model=None):
    """Return sums of gradients (ranks, pieces, parameters), and five counts (ranks, pieces)."""
    model, sums, counts = model or model_of(), [], []
    for rank, of_rank in enumerate(lengths):
        for tokens, targets in pieces_of(rank, of_rank):
            logits, wanted = model(tokens).flatten(0, 1), targets.flatten()
            loss = F.cross_entropy(logits, wanted, ignore_index=PADDING, reduction="sum")
            sums.append(flat(torch.autograd.grad(loss, list(model.parameters()))))
            counts.append([(targets != PADDING).sum(), targets.numel(), len(targets),
                           (targets > 0).sum(), (tokens != 0).sum()])  # fmt: skip
    shape = len(lengths), len(lengths[0])
    counts = torch.tensor(counts, dtype=torch.float64)
    return torch.stack(sums).unflatten(0, shape), counts.unflatten(0, shape).unbind(-1)


def mean(trial, place):
    sums, (tokens, *_) = tables(trial.case.args[0])
    return sums.sum((0, 1)) / tokens.sum()


def mean_of_large(trial, place):
    sums, (tokens, *_) = tables([OF_LARGE] * trial.n, model_of(LARGE, LARGE))
    return summarise_gradient(sums.sum((0, 1)) / tokens.sum())


def sum_weighted(sums, weights):
    return torch.einsum("rm,rmp->p", weights.expand(sums.shape[:2]), sums)


AGAIN = "DistributedDataParallel divides by the number of ranks after each backward"

OWN = (
    "each rank divides by its own count, and DistributedDataParallel takes the mean of these "
    "means: a token of a rank with few tokens counts more. Which number is the same on all ranks?"
)

TWICE = f"this is divided by the number of ranks once too often: {AGAIN}"


def mistakes(trial, place):
    sums, (tokens, places, sentences, above, nonzero) = tables(trial.case.args[0])
    n, pieces = sums.shape[:2]
    ones, total, own = torch.ones(n, pieces).double(), tokens.sum(), tokens.sum(1, keepdim=True)
    alone, last = torch.zeros(n, pieces).double(), torch.zeros(n, pieces).double()
    alone[place], last[:, -1] = 1, 1
    each = ones / tokens.clamp(min=1)
    weights = {
        OWN: ones / own.clamp(min=1) / n,
        "each rank divides by its own count, and these means are added up. Which number is the "
        "same on all ranks?": ones / own.clamp(min=1),
        "a mean of means: each micro-batch counts the same, and each rank. A token among few then "
        "counts more than a token among many": each / pieces / n,
        TWICE: ones / total / n,
        "this is the mean over the tokens, times the number of ranks: what is divided by the "
        "number of ranks, and how often?": ones * n / total,
        "this is the gradient of the sum over all tokens: divide by how many count": ones,
        "the mean of a micro-batch is divided by the tokens of all ranks: that divides twice. Its "
        "sum has to be divided, once": each / total,
        "`.grad` is clear, as it was: nothing goes back": 0 * ones,
        "this is a sum of gradients, divided by the number of ranks: divide by how many tokens "
        "count": ones / n,
        "the means of the micro-batches are added up": each / n,
        "positions are counted, padding included: only targets that are not PADDING count":
            ones / places.sum(),
        "the sum is divided by the number of sentences, not of tokens": ones / sentences.sum(),
        "targets above 0 are counted: 0 is a token, too, and only PADDING does not count":
            ones / above.sum(),
        "tokens that are not 0 are counted: 0 is a token, too. It is targets that may be PADDING":
            ones / nonzero.sum(),
        "nothing is averaged over the ranks: each has a share of its own. DistributedDataParallel "
        "communicates in a backward whose forward is not under no_sync()": n * alone / total,
        "nothing is averaged over the ranks: each has the mean over its own tokens":
            alone / own.clamp(min=1),
        "only the last micro-batch counts: the gradients of the others are set back, or are never "
        "computed": last / total,
        "the counts of the last micro-batches alone are added up": ones / tokens[:, -1].sum(),
        "each micro-batch is divided by what it has on all ranks: a mean of means again":
            ones / tokens.sum(0, keepdim=True).clamp(min=1) / pieces,
        "only the last micro-batch is averaged over the ranks; of the others, each rank has its "
        "own": (n * alone * (1 - last) + last) / total,
    }  # fmt: skip
    return {why: sum_weighted(sums, weight) for why, weight in weights.items()}


NAN = (
    "0/0: a mean over no tokens is not a number, and DistributedDataParallel gives it to all "
    "ranks. A micro-batch, or all of a rank, may be padding alone; its sum is 0"
)


def otherwise(trial) -> str:
    return NAN if any(of.grad.isnan().any() for of in trial) else ""


SMALL = 64  # bytes; smaller messages are no gradients


@complains
def counts_once(trial):
    for place, calls in enumerate(trial.calls):
        small = sum(call.name == "all_reduce" and call.tensor_bytes <= SMALL for call in calls)
        if small > 1:
            what = f"{trial.name_of_rank(place)}: {small} all-reduces of single numbers"
            yield what, "how many tokens count is known before the first forward: ask once"


def why_so_many_bytes(trial, times) -> str:
    pieces = len(trial.case.args[0][0])
    if round(times) == pieces:
        return (
            f"the gradients are sent {pieces} times, once for each micro-batch: all backwards but "
            "the last have to be silent"
        )
    return "the gradients have to travel once, and beside them a single number"


def one_exchange_and_a_number(trial, place):
    bytes_of = trial.collect_values("large_bytes")
    return bytes_of and 2 * (trial.n - 1) / trial.n * bytes_of[place] + ONE_NUMBER

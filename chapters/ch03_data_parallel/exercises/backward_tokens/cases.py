"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from coursekit.kit import measure_answer
from coursekit.kit.reference_training import flat, gradients_in

PADDING = -100

WORDS, HIDDEN, LARGE = 7, 3, 400

# For each micro-batch of each rank, the lengths of its sentences; 0 is one of padding only.
THREE_EACH = [[[7, 1], [3, 5, 2], [6]], [[1, 2], [1], [2, 2]]]

RANK_OF_PADDING = [[[4, 2], [5]], [[0], [0, 0]], [[1], [2, 3, 1]]]

ENDS_WITH_PADDING = [[[3, 1], [0, 0], [0]], [[6, 6], [2], [4, 1]]]

SINGLE = [[[2]], [[5, 3]]]

MANY = [[[1500, 1501]], [[8]]]  # more than float16 can count one by one

OF_LARGE = [[2], [1], [1]]  # the micro-batches of each rank


def model_of(words=WORDS, hidden=HIDDEN):
    model = nn.Sequential(nn.Embedding(words, hidden), nn.Tanh(), nn.Linear(hidden, words)).double()
    source = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7, generator=source)
    return model


def pieces_of(rank, lengths, words=WORDS):
    """Return (tokens, targets) of each micro-batch, padded to its longest sentence and one more."""
    source = torch.Generator().manual_seed(17 + rank)
    return [rectangle(some, source, words) for some in lengths]


def rectangle(some, source, words):
    shape = len(some), max(some) + 1
    tokens, targets = (torch.randint(words, shape, generator=source) for _ in range(2))
    for row, length in enumerate(some):
        tokens[row, length:], targets[row, length:] = 0, PADDING
    return tokens, targets


def count_and_go_back(answer, group, case):
    """Return the gradients, counts of forwards and backwards, and what else has changed."""
    rank, lengths = dist.get_rank(), case.args[0]
    ddp, most, kept, backwards = DistributedDataParallel(model_of()), [], [], []

    def forward(_, inputs):
        most.append(len(inputs[0]))
        kept.append(len(most) - len(backwards))

    last, before = ddp.module[2].weight, flat(ddp.parameters())
    last.register_post_accumulate_grad_hook(backwards.append)
    ddp.module.register_forward_pre_hook(forward)
    pieces = pieces_of(rank, lengths[rank])
    value = answer(ddp, pieces)
    del value
    found = {"grad": gradients_in(ddp), "backwards": len(backwards) - len(lengths[rank])}
    found["sentences"] = max(most, default=0) - max(map(len, lengths[rank]))
    found["together"] = max(kept, default=1) - 1
    found["moved"] = not torch.equal(before, flat(ddp.parameters()))
    found["silent"] = not ddp.require_backward_grad_sync
    found["changed"] = not are_equal(pieces, pieces_of(rank, lengths[rank]))
    return found | (cost_of_large(answer, rank) if len(case.args) > 1 else {})


def are_equal(some, others) -> bool:
    return len(some) == len(others) and all(
        torch.equal(*pair) for one, other in zip(some, others) for pair in zip(one, other)
    )


def cost_of_large(answer, rank):
    """Measure the answer with a large model, whose earlier backwards have agreed on buckets."""
    ddp, pieces = DistributedDataParallel(model_of(LARGE, LARGE)), pieces_of(rank, OF_LARGE)
    for _ in range(2):
        ddp(pieces[0][0]).sum().backward()
    ddp.zero_grad()
    with measure_answer():
        answer(ddp, pieces)
    gradient = gradients_in(ddp)
    return {"large_bytes": gradient.nbytes, "large": summarise_gradient(gradient)}


def summarise_gradient(gradient):
    """Return three numbers that change if a value is missing or in another place."""
    place = torch.linspace(0, 1, len(gradient), dtype=gradient.dtype)
    return torch.stack([gradient.sum(), gradient @ place, gradient.norm()])

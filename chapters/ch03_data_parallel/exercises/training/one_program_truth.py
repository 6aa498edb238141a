"""One process that trains like all ranks together, and programs with mistakes.

It shuffles, accumulates and clips by itself, from the same first weights as the ranks.
"""

import torch
import torch.nn.functional as F
from torch import nn

from coursekit.kit.reference_training import flat

from .one_program import BATCH, EPOCHS, FEATURES, SAMPLES, data_of

PADDING = -100


def model_with(weights):
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 10)).double()
    nn.utils.vector_to_parameters(weights.clone(), model.parameters())
    return model


def batches(n, epoch):
    """Yield the indices of each rank's samples for each step of an epoch."""
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(1 + epoch))
    steps = SAMPLES // n // (BATCH // n)
    for whole in order[: steps * BATCH].split(BATCH):
        yield [whole[rank::n] for rank in range(n)]


def slope(model, images, labels, chosen):
    loss = F.cross_entropy(model(images[chosen]), labels[chosen])
    return loss.item(), flat(torch.autograd.grad(loss, list(model.parameters())))


def clip_gradient(gradient, most):
    return gradient * min(1.0, most / (gradient.norm().item() + 1e-6))


def mean_then_clip(table, most, place):
    return clip_gradient(table.mean((0, 1)), most)


def never_clip(table, most, place):
    return table.mean((0, 1))


def clip_ranks_first(table, most, place):
    each = torch.stack([clip_gradient(of_rank.mean(0), most) for of_rank in table])
    return clip_gradient(each.mean(0), most)


def clip_in_each_piece(table, most, place):
    """Clip `.grad` after each backward: the sum accumulated so far, and at last the mean."""
    *first, last = table.unbind(1)
    kept = torch.zeros_like(table[:, 0])
    for piece in first:
        kept = torch.stack([clip_gradient(g, most) for g in kept + piece / table.shape[1]])
    return clip_gradient((kept + last / table.shape[1]).mean(0), most)


def clip_in_each_piece_and_again(table, most, place):
    return clip_gradient(
        clip_in_each_piece(table, most, place), most
    )  # differs by the 1e-6 in the divisor


def clip_numbers(table, most, place):
    return table.mean((0, 1)).clamp(-most, most)


def sum_of_pieces(table, most, place):
    return clip_gradient(table.mean((0, 1)) * table.shape[1], most)


def sum_over_ranks(table, most, place):
    return clip_gradient(table.mean((0, 1)) * len(table), most)


def mean_over_ranks_twice(table, most, place):
    return clip_gradient(table.mean((0, 1)) / len(table), most)


def own_alone(table, most, place):
    return clip_gradient(table[place].mean(0), most)


def last_piece(table, most, place):
    return clip_gradient(table[:, -1].mean(0) / table.shape[1], most)


def last_piece_averaged(table, most, place):
    """Average only the last piece over the ranks, and add each rank's own sum of the others."""
    *first, last = table.unbind(1)
    return clip_gradient((sum(first, 0 * last)[place] + last.mean(0)) / table.shape[1], most)


def train_one_program(
    start,
    n,
    parts,
    most,
    follow=mean_then_clip,
    order=lambda e: e,
    place=0,
    keep=False,
    epochs=EPOCHS,
):
    """Return the weights after each epoch, and the mean loss of each.

    follow  takes (gradients, clipping limit, place), returns the gradient that a step follows
    order   takes an epoch, returns the number of the epoch whose order is used
    keep    whether nothing sets gradients back
    """
    images, labels, *_ = data_of()
    model, weights, losses = model_with(start), [], []
    optimizer, before = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), None
    for epoch in range(epochs):
        found = []
        for shares in batches(n, order(epoch)):
            pairs = [[slope(model, images, labels, piece) for piece in share.chunk(parts)]
                     for share in shares]  # fmt: skip
            found += [loss for of_rank in pairs for loss, _ in of_rank]
            table = torch.stack([torch.stack([g for _, g in of_rank]) for of_rank in pairs])
            if keep and before is not None:
                table = table + before
            before = follow(table, most, place)
            put(model, before)
            optimizer.step()
        weights.append(flat(model.parameters()))
        losses.append(sum(found) / len(found))
    return weights, losses


def put(model, gradient):
    """Put the parts of a flat gradient into the `.grad` of each parameter."""
    sizes = [p.numel() for p in model.parameters()]
    for p, part in zip(model.parameters(), gradient.split(sizes)):
        p.grad = part.view_as(p).clone()

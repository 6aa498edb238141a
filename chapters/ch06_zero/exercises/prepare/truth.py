"""The right results, and the results of known mistakes."""

import torch
import torch.nn.functional as F

from coursekit.kit import Wrong
from coursekit.kit.reference_training import flat

from .cases import BLOCKS, STEPS, Small, batch_of, make_optimizer


def pieces(n, tensor):
    """Return the parts of a tensor that FSDP2 gives to the ranks, along its first dimension."""
    parts = list(tensor.chunk(n))
    return parts + [tensor[:0]] * (n - len(parts))


def clip_all(gradients, limit, n):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [g * min(1.0, float(limit / norm)) for g in gradients]


def clip_shards(gradients, limit, n):
    """Return the gradients if each rank clips by the norm of its own shards."""
    cut = [pieces(n, g) for g in gradients]
    scales = []
    for rank in range(n):
        norm = torch.cat([c[rank].flatten() for c in cut]).norm()
        scales.append(min(1.0, float(limit / norm)) if norm > 0 else 1.0)
    return [torch.cat([part * scale for part, scale in zip(c, scales)]) for c in cut]


def clip_each(gradients, limit, n):
    return [g * min(1.0, float(limit / g.norm())) for g in gradients]


def clip_numbers(gradients, limit, n):
    return [g.clamp(-limit, limit) for g in gradients]


def clip_summed_norms(gradients, limit, n):
    """Return the gradients if the norms of the ranks' shards are summed, not their squares."""
    cut = [pieces(n, g) for g in gradients]
    norm = sum(torch.cat([c[rank].flatten() for c in cut]).norm() for rank in range(n))
    return [g * min(1.0, float(limit / norm)) for g in gradients]


def train_reference(trial, mixed=False, factor=1.0, clip=clip_all, keep=False):
    """Train in one process by the mean gradient of the ranks.

    mixed    whether the model is put together from shards of each rank's own weights
    keep     whether gradients are never cleared
    Returns  the initial weights, the weights after each step, and each step's losses by rank
    """
    n, (limit,) = trial.n, trial.case.args
    model = Small(0)
    if mixed:
        others = [list(Small(rank).parameters()) for rank in range(n)]
        for number, p in enumerate(model.parameters()):
            p.data = torch.cat([pieces(n, of[number].data)[k] for k, of in enumerate(others)])
    losses = []
    start, after = flat(model.parameters()).clone(), []
    optimizer = make_optimizer(model.parameters())
    for step in range(STEPS):
        batches = [batch_of(rank, step) for rank in range(n)]
        each = [F.mse_loss(model(x), y) for x, y in batches]
        losses.append([loss.item() for loss in each])
        loss = sum(each) / n * factor
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        if keep:
            olds = [0 if p.grad is None else p.grad for p in model.parameters()]
            gradients = [g + old for g, old in zip(gradients, olds)]
        for p, g in zip(model.parameters(), clip(list(gradients), limit, n)):
            p.grad = g.clone()
        optimizer.step()
        after.append(flat(model.parameters()).clone())
    return start, after, losses


def right_losses(trial, place):
    return [each[place] for each in train_reference(trial)[2]]


def wrong_losses(trial, place):
    n, each = trial.n, train_reference(trial)[2]
    return {
        "step() returns the mean over the ranks; asked is this rank's loss":
            [sum(losses) / n for losses in each],
        "step() returns the sum over the ranks; asked is this rank's loss":
            [sum(losses) for losses in each],
        "step() returns a part of this rank's loss: it is divided by the number of ranks":
            [losses[place] / n for losses in each],
        "step() returns nothing: this rank's loss is asked": [None] * STEPS,
    }  # fmt: skip


def wrong_starts(trial, place):
    n = trial.n
    first = [pieces(n, p.detach())[0] for p in Small(0).parameters()]
    parts = [torch.cat([own] * n)[: len(p)] for own, p in zip(first, Small(0).parameters())]
    return {
        "each rank has made a model of its own, and FSDP2 has put the sharded model together from "
        "their parts: unlike DDP, it does not broadcast rank 0's weights": train_reference(
            trial, True
        )[0],
        "every rank has rank 0's shard: what was sent was a part of each weight. Send the whole "
        "weights before they are cut": flat(parts),
        "this is the mean of the ranks' weights; asked are rank 0's": sum(
            flat(Small(k).parameters()) for k in range(n)
        )
        / n,
        **{
            f"this is rank {k}'s model; asked is rank 0's": flat(Small(k).parameters())
            for k in range(1, n)
        },
    }


def wrong_weights(trial, place):
    n = trial.n
    twice = "the gradient is divided by the number of ranks twice: FSDP2 has averaged already"
    times = "the gradient is multiplied by the number of ranks: FSDP2 gives the mean"
    shards = (
        "each rank clips by the norm of its own shards. These norms differ, so ranks scale their "
        "parts by different factors: the norm of the gradient is that of all shards together"
    )
    return {
        **{
            why: train_reference(trial, factor=factor)[1]
            for why, factor in ((twice, 1 / n), (times, n))
        },
        shards: train_reference(trial, clip=clip_shards)[1],
        "nothing clears the gradients: each step follows those of all steps before it, "
        "too": train_reference(trial, keep=True)[1],
        "nothing is clipped. Clipping changes gradients, so it comes before the "
        "step": train_reference(trial, clip=lambda gradients, limit, n: gradients)[1],
        "each parameter is clipped by itself; asked is the norm of the whole "
        "gradient": train_reference(trial, clip=clip_each)[1],
        "each number is clipped by itself; asked is the norm of the whole "
        "gradient": train_reference(trial, clip=clip_numbers)[1],
        "the norms of the shards are added up: squares add up, and the root comes "
        "last": train_reference(trial, clip=clip_summed_norms)[1],
        "no step is taken: the weights are those of the start. Was the optimizer made of the "
        "parameters before FSDP2 put others in their place?": [train_reference(trial)[0]] * STEPS,
    }


def need_pair(trial):
    given = trial.collect_values("given")
    if given and any(given):
        raise Wrong(str(trial.case), f"prepare() returns {given[0]}",
                    "asked are two values: the model, and the function step")  # fmt: skip


def why_gathers(trial, place) -> str:
    found = trial[place].gathers
    if found == 2 * BLOCKS + 2:
        return ("the root is released after the forward, and gathered again at once: the backward "
                "begins with it. FSDP2 keeps it, unless it is told otherwise")  # fmt: skip
    if found == BLOCKS + 1:
        return ("the blocks stay gathered from the forward to the backward: that is the whole "
                "model. Only the root does")  # fmt: skip
    return "each block is gathered for its forward and for its backward, the root once"

"""The cases, and the code that runs next to the answer."""

import torch.distributed as dist
from coursekit.content.ch01_gradient_accumulation.exercises.shared.accumulation import merge_pieces
from torch.nn.parallel import DistributedDataParallel

from coursekit.kit.reference_training import (
    RATE,
    batch_of,
    flat,
    model_of,
    note_gradients,
    train_alone,
    uneven_loss,
)

from ..shared.state_snapshot import StateSnapshot


def train(answer, group, case):
    """Return the final weights of a rank, and the gradients that each step has found."""
    optimizer_type, steps = case.args
    rank = dist.get_rank()
    ddp = DistributedDataParallel(model_of(rank))
    optimizer = optimizer_type(ddp.parameters(), lr=RATE)
    followed = note_gradients(optimizer, ddp)
    batches = batches_of(rank, steps)
    alone = StateSnapshot(ddp, batches)
    answer(ddp, uneven_loss, optimizer, batches)
    return {
        "weights": flat(ddp.parameters()), "followed": followed, "touched": alone.find_changes()
    }  # fmt: skip


def batches_of(rank, steps):
    return [batch_of(rank, step) for step in range(steps)]


def union_of(trial):
    """Return the batch that all ranks together take in each step."""
    batches = (batches_of(rank, trial.case.args[1]) for rank in range(trial.n))
    return [merge_pieces(of_step) for of_step in zip(*batches)]


def alone(trial, **how):
    """Return weights after each step, and gradients, of one process that takes all batches."""
    return train_alone(union_of(trial), trial.case.args[0], **{"loss_fn": uneven_loss} | how)

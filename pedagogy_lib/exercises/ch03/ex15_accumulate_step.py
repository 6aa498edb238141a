"""A step over micro-batches that lets replicas drift apart."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close, told_gap
from ...course.checking import Wrong
from ..kit import At, Equals, Holds, RankExercise, Sends, World, answering
from ..kit.one_process import (
    HANGS,
    LARGE,
    RATE,
    batch_of,
    flat,
    large_model,
    model_of,
    note_gradients,
)
from .broken_loops import pieces_of, shares, table_of

STEPS, MANY = 3, 4  # steps; micro-batches where bytes are compared


# ---- On a rank ---


def take_steps(answer, group, case):
    """The weights after each step, and the gradients that each has found."""
    (number,) = case.args
    rank, n, model, weights = dist.get_rank(), dist.get_world_size(), model_of(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    followed = note_gradients(optimizer, model)
    for step in range(STEPS):
        answer(model, F.mse_loss, pieces_of(n, step, number)[rank], optimizer)
        weights.append(flat(model.parameters()))
    return {"weights": weights, "followed": followed} | (cost_of_large(answer) if n == 3 else {})


def cost_of_large(answer):
    model = large_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    pieces = [batch_of(dist.get_rank(), 0, piece, features=LARGE) for piece in range(MANY)]
    with answering():
        answer(model, F.mse_loss, pieces, optimizer)
    return {"large_bytes": flat(model.parameters()).nbytes}


# ---- What is right, and what is not ---


def tables_of(trial) -> list:
    """For each step of one process the gradients of all: (ranks, micro-batches, parameters)."""
    model, tables = model_of(), []
    for step in range(STEPS):
        tables.append(table_of(model, pieces_of(trial.n, step, *trial.case.args)))
        after = flat(model.parameters()) - RATE * tables[-1].mean((0, 1))
        nn.utils.vector_to_parameters(after, model.parameters())
    return tables


def means(trial, place):
    return [table.mean((0, 1)) for table in tables_of(trial)]


def weights_alone(trial, place):
    moves = torch.stack(means(trial, place)).cumsum(0)
    return list(flat(model_of().parameters()) - RATE * moves)


def mistakes(trial, place):
    tables, right = tables_of(trial), means(trial, place)
    n, number = tables[0].shape[:2]
    earlier = [torch.zeros_like(right[0]), *right]
    return {
        why: [torch.einsum("rm,rmp->p", share, table.roll(-place, 0)) for table in tables]
        for why, share in shares(n, number).items()
    } | {
        "all ranks follow rank 0's gradient: the samples of the others count nothing":
            [table[0].mean(0) for table in tables],
        "gradients of the step before are still in it: set them back, or put new ones in their "
        "place": [mine + before for mine, before in zip(right, earlier)],
    }  # fmt: skip


def told_apart(trial, place) -> str:
    """How far the replicas are from each other; if they agree, how far from one process."""
    for step, alone in enumerate(weights_alone(trial, place)):
        after = [of.weights[step] for of in trial]
        apart = [rank for rank, mine in enumerate(after) if not close(mine, after[0])]
        if apart:
            off = told_gap(after[0], after[apart[0]])
            return f"after step {step} the weights of ranks 0 and {apart[0]} differ by up to {off}"
        if not close(after[0], alone):
            off = told_gap(after[0], alone)
            return f"after step {step} the weights are off by up to {off} on every rank"
    return "the steps follow other gradients than the mean over all ranks' micro-batches"


def weights_are_not_averaged(trial):
    agree = all(close(of.weights, trial[0].weights) for of in trial)
    if agree and not all(close(of.followed, trial[0].followed) for of in trial):
        raise Wrong(
            str(trial.case), told_apart(trial, 0), "the replicas agree, and each step has followed "
            "the rank's own gradients: the weights are averaged instead. With plain SGD that comes "
            "to the same, and with most optimizers it does not",
        )  # fmt: skip


def one_exchange(trial, place):
    bytes_of = trial.of("large_bytes")
    return bytes_of and 2 * (trial.n - 1) / trial.n * bytes_of[place]


def why_so_many_bytes(trial, times) -> str:
    if round(times) == MANY:
        return (
            f"the gradients are sent {MANY} times: once for each micro-batch. A mean of sums is "
            "the sum of means: which of them is cheaper to send?"
        )
    return (
        f"{times:.2f} times the bytes of one all-reduce are sent. Accumulate first; then each "
        "gradient has to travel once"
    )


EXERCISE = RankExercise(
    "3.15",
    "accumulate_step",
    cases=[
        At(World(2), (4,), ", 4 micro-batches each"),
        At(World(3), (2,), ", 2 micro-batches each"),
    ],
    work=take_steps,
    facts=[
        Holds("followed", lambda followed: len(followed) == STEPS,
              lambda followed: f"{len(followed)} optimizer steps in {STEPS} calls",
              "a call is one step: optimizer.step() once, after the last micro-batch"),
        weights_are_not_averaged,
        Equals("followed", means, mistakes, tells=told_apart),
        Equals("weights", weights_alone, tells=told_apart,
               otherwise="the gradients that optimizer.step() finds are right, and something else "
               "changes the weights"),
        Sends(one_exchange, "one all-reduce of all gradients is", why_so_many_bytes),
    ],
    told=f"after {STEPS} steps the weights of one process, on every rank",
    lost=HANGS,
    warm=True,
    hints=(
        "After the step, do all ranks have the same weights? Write down what is in `total` on "
        "each rank after the last micro-batch.",
        "The gradients of the first micro-batches never travel. Averaging each of them would "
        "be right, and expensive. What could travel once?",
        "Accumulate all micro-batches on each rank; average `total` after the loop.",
    ),
)  # fmt: skip

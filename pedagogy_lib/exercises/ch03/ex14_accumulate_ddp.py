"""Micro-batches under DistributedDataParallel's no_sync()."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from ..kit import At, Equals, Holds, RankExercise, Sends, World, answering
from ..kit.one_process import (
    HANGS,
    LARGE,
    batch_of,
    flat,
    gradients_in,
    large_model,
    model_of,
    one_exchange,
)
from .micro_batches import pieces_of, shares, table_of, told_pieces

FINDS_A_BUG = True

CALLS = (4, 1, 2)  # micro-batches of each
SAMPLES = 4  # of a micro-batch
CAUSE = (
    ". DistributedDataParallel averages in a backward whose forward went through `ddp`, and was "
    "not under no_sync()"
)
NOT_AVERAGED = ("nothing is averaged", "the last micro-batch is not averaged")


# ---- On a rank ---


def accumulate(answer, group, case):
    """The gradients after each call, the most samples at a time, and how often one went back."""
    rank, n = dist.get_rank(), dist.get_world_size()
    ddp, found, samples, backwards = DistributedDataParallel(model_of(rank)), {}, [], []
    next(ddp.parameters()).register_post_accumulate_grad_hook(backwards.append)
    ddp.module.register_forward_pre_hook(lambda _, inputs: samples.append(len(inputs[0])))
    for step, number in enumerate(CALLS):
        ddp.zero_grad()
        answer(ddp, F.mse_loss, pieces_of(n, step, number)[rank])
        found[name_of(number)] = gradients_in(ddp)
    counts = {"samples": max(samples, default=0), "backwards": len(backwards)}
    return {"grad": found} | counts | cost_of_large(answer, rank)


def name_of(number) -> str:
    return f"a call with {told_pieces(number)}"


def cost_of_large(answer, rank):
    ddp = DistributedDataParallel(large_model())
    pieces = [batch_of(rank, 0, piece, features=LARGE) for piece in range(CALLS[0])]
    for _ in range(2):  # the second backward agrees on buckets, and sends some bytes for that
        F.mse_loss(ddp(pieces[0][0]), pieces[0][1]).backward()
    ddp.zero_grad()
    with answering():
        answer(ddp, F.mse_loss, pieces)
    return {"large_bytes": flat(ddp.parameters()).nbytes}


# ---- What is right, and what is not ---


def tables(trial):
    """{call: the gradients of all ranks' micro-batches, (ranks, micro-batches, parameters)}."""
    return {name_of(number): table_of(model_of(), pieces_of(trial.n, step, number))
            for step, number in enumerate(CALLS)}  # fmt: skip


def mean(trial, place):
    return {call: table.mean((0, 1)) for call, table in tables(trial).items()}


def mistakes(trial, place):
    found = {}
    for call, table in tables(trial).items():
        for sentence, share in shares(*table.shape[:2]).items():
            gradient = torch.einsum("rm,rmp->p", share, table.roll(-place, 0))
            cause = CAUSE if sentence.startswith(NOT_AVERAGED) else ""
            found.setdefault(sentence + cause, {})[call] = gradient
    return found


def why_so_many_bytes(trial, times) -> str:
    if round(times) == CALLS[0]:
        return (
            f"all {CALLS[0]} backwards have sent theirs: either nothing tells "
            "DistributedDataParallel to be silent, or no_sync() comes too late. When does it "
            "prepare for what a backward has to send?"
        )
    return (
        f"{times:.2f} times the bytes of one all-reduce are sent: all micro-batches but the last "
        "have to do without"
    )


EXERCISE = RankExercise(
    "3.14",
    "accumulate_ddp",
    cases=[At(World(3))],
    work=accumulate,
    facts=[
        Equals("grad", mean, mistakes, "`.grad` after"),
        Holds("samples", lambda most: most <= SAMPLES,
              "the gradients are right, but {} samples pass through the model at once; "
              f"a micro-batch has {SAMPLES}",
              "one forward takes several micro-batches, and keeps the activations of all of them "
              "for its backward: to save this memory is what micro-batches are for"),
        Holds("backwards", lambda count: count == sum(CALLS),
              f"the gradients are right, but {{}} backwards go through {sum(CALLS)} micro-batches",
              "a loss keeps all activations of its micro-batch until its backward. Each has one of "
              "its own, before the next one comes: to save this memory is what micro-batches are "
              "for"),
        Sends(one_exchange, "one all-reduce of all gradients is", why_so_many_bytes),
    ],
    told="after calls with 4, 1 and 2 micro-batches, the gradients of one process",
    lost=HANGS,
    warm=True,
    hints=(
        "The gradients are right. Measure the bytes: how often do they travel?",
        "DistributedDataParallel prepares for a backward's communication in the forward before "
        "it.",
        "For all micro-batches but the last, the forward has to be under no_sync(), too.",
    ),
)  # fmt: skip

"""Micro-batches under DistributedDataParallel's no_sync()."""

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ..kit import At, Equals, Holds, RankExercise, Sends, World
from ..kit.one_process import (
    HANGS,
    WRONG_LOSSES,
    gradients_in,
    model_of,
    one_exchange,
    uneven_loss,
)
from .held_activations import held_at_once
from .large_models import (
    Travels,
    cost_of_layers,
    known_of_layers,
    right_if_large,
    with_agreed_buckets,
)
from .left_alone import LeftAlone, leaves_alone
from .micro_batches import pieces_of, sent_for_each, shares, table_of, told_pieces, weighted

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
    held, touched = held_at_once(ddp.module), []
    for step, number in enumerate(CALLS):
        ddp.zero_grad()
        pieces = pieces_of(n, step, number)[rank]
        alone = LeftAlone(ddp, pieces, weights=True)
        answer(ddp, uneven_loss, pieces)
        touched += alone.changed()
        found[name_of(number)] = gradients_in(ddp)
    counts = {"samples": max(samples, default=0), "backwards": len(backwards)}
    counts |= {"held": max(held, default=0), "touched": touched}
    return {"grad": found} | counts | cost_of_call(answer, rank)


def name_of(number) -> str:
    return f"a call with {told_pieces(number)}"


def cost_of_call(answer, rank):
    return cost_of_layers(
        lambda ddp, pieces: answer(ddp, uneven_loss, pieces), rank, CALLS[0], with_agreed_buckets
    )  # fmt: skip


# ---- What is right, and what is not ---


def tables(trial, loss_fn=uneven_loss):
    """{call: the gradients of all ranks' micro-batches, (ranks, micro-batches, parameters)}."""
    return {name_of(number): table_of(model_of(), pieces_of(trial.n, step, number), loss_fn)
            for step, number in enumerate(CALLS)}  # fmt: skip


def mean(trial, place):
    return {call: table.mean((0, 1)) for call, table in tables(trial).items()}


def mistakes(trial, place):
    found = {why: {call: table.mean((0, 1)) for call, table in tables(trial, loss_fn).items()}
             for why, loss_fn in WRONG_LOSSES.items()}  # fmt: skip
    for call, table in tables(trial).items():
        for sentence, share in shares(*table.shape[:2]).items():
            gradient = weighted(table, share, place)
            cause = CAUSE if sentence.startswith(NOT_AVERAGED) else ""
            found.setdefault(sentence + cause, {})[call] = gradient
    return found


why_so_many_bytes = sent_for_each(
    lambda trial: CALLS[0],
    "all {number} backwards have sent theirs: either nothing tells DistributedDataParallel to be "
    "silent, or no_sync() comes too late. When does it prepare for what a backward has to send?",
    "{times} times the bytes of one all-reduce are sent: all micro-batches but the last have to do "
    "without",
)


EXERCISE = RankExercise(
    "3.13",
    "accumulate_ddp",
    cases=[At(World(3))],
    work=accumulate,
    known=lambda case, place: known_of_layers(place, uneven_loss, CALLS[0]),
    facts=[
        leaves_alone,
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
        Holds("held", lambda most: most <= 1,
              "the gradients are right, but the activations of {} micro-batches are held at once",
              "a forward keeps its activations until its backward, and with retain_graph=True for "
              "longer. Each micro-batch has its backward before the next one's forward"),
        right_if_large(),
        Travels(one_exchange),
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

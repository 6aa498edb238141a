"""A step over micro-batches that lets replicas drift apart."""

import torch
import torch.distributed as dist
from torch import nn

from ...basics.closeness import close, told_gap
from ..kit import At, Equals, Holds, RankExercise, Sends, World, complains
from ..kit.one_process import (
    HANGS,
    RATE,
    WRONG_LOSSES,
    flat,
    model_of,
    note_gradients,
    one_exchange,
    uneven_loss,
)
from .large_models import Travels, cost_of_layers, known_of_layers, right_if_large
from .left_alone import LeftAlone, leaves_alone
from .micro_batches import pieces_of, sent_for_each, shares, table_of, weighted

FINDS_A_BUG = True

STEPS, LEFT = 3, 0.125  # what an earlier backward has left in every `.grad`


# ---- On a rank ---


def take_steps(answer, group, case):
    """The weights after each step, and the gradients that each has found."""
    (number,) = case.args
    rank, n, model, weights = dist.get_rank(), dist.get_world_size(), model_of(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    followed, touched = note_gradients(optimizer, model), []
    for parameter in model.parameters():  # whatever is in `.grad` before
        parameter.grad = torch.full_like(parameter, LEFT)
    for step in range(STEPS):
        pieces = pieces_of(n, step, number)[rank]
        alone = LeftAlone(model, pieces)
        answer(model, uneven_loss, pieces, optimizer)
        touched += alone.changed()
        weights.append(flat(model.parameters()))
    return {"weights": weights, "followed": followed, "touched": touched} | (
        cost_of_step(answer, rank, number) if n == 3 else {}
    )


def cost_of_step(answer, rank, number):
    found = {}

    def call(model, pieces):
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        optimizer.register_step_pre_hook(lambda *_: found.update(
            (name, p.grad.clone()) for name, p in model.named_parameters()))  # fmt: skip
        answer(model, uneven_loss, pieces, optimizer)

    return cost_of_layers(call, rank, number, after=lambda: found)


def known_of_large(case, place) -> dict:
    return known_of_layers(place, uneven_loss, *case.args) if case.world.size == 3 else {}


def found_on(case):
    return ("followed", "weights") + ("large",) * (case.world.size == 3)


# ---- What is right, and what is not ---


def steps_alone(trial) -> list:
    """Of one process: a table of gradients (ranks, micro-batches, parameters), mean and weights."""
    model, found = model_of(), []
    for step in range(STEPS):
        table = table_of(model, pieces_of(trial.n, step, *trial.case.args))
        mean = table.mean((0, 1))
        weights = flat(model.parameters()) - RATE * mean
        nn.utils.vector_to_parameters(weights, model.parameters())
        found.append((table, mean, weights))
    return found


def means(trial, place):
    return [mean for _, mean, _ in steps_alone(trial)]


def mistakes(trial, place):
    tables, right = [table for table, _, _ in steps_alone(trial)], means(trial, place)
    n, number = tables[0].shape[:2]
    return {
        why: [weighted(table, share, place) for table in tables]
        for why, share in shares(n, number).items()
    } | {
        why: [table_of(model_of(), pieces_of(n, 0, number), loss_fn).mean((0, 1)), *right[1:]]
        for why, loss_fn in WRONG_LOSSES.items()  # looked at is the first step
    } | {
        "all ranks follow rank 0's gradient: the samples of the others count nothing":
            [table[0].mean(0) for table in tables],
        "what was in `.grad` before the call is still in it. Set gradients back before the "
        "micro-batches, or put new ones in their place":
            [mine + before for mine, before in zip(right, [0 * right[0] + LEFT, *right])],
    }  # fmt: skip


def told_apart(trial, place=0) -> str:
    """How far the replicas are from each other; if they agree, how far from one process."""
    for step, (_, _, alone) in enumerate(steps_alone(trial)):
        after = [of.weights[step] for of in trial]
        apart = next((rank for rank in range(trial.n) if not close(after[rank], after[0])), None)
        if apart:
            off = told_gap(after[0], after[apart])
            return f"after step {step} the weights of ranks 0 and {apart} differ by up to {off}"
        if not close(after[0], alone):
            off = told_gap(after[0], alone)
            return f"after step {step} the weights are off by up to {off} on every rank"
    return "the weights are right, but the steps follow other gradients than the mean"


@complains
def weights_follow_gradients(trial):
    agree = all(close(of.weights, trial[0].weights) for of in trial)
    if agree and not all(close(of.followed, trial[0].followed) for of in trial):
        why = (
            "the replicas agree, and each step has followed the rank's own gradients: the weights "
            "are averaged instead. With plain SGD that comes to the same, and with most optimizers "
            "it does not"
        )
        yield told_apart(trial), why
    for step, (_, mean, weights) in enumerate(steps_alone(trial)):
        if not all(close(of.followed[step], mean) for of in trial):
            return
        if not all(close(of.weights[step], weights) for of in trial):
            why = "the gradients that optimizer.step() finds are right, and something else changes "
            yield told_apart(trial), why + "the weights"


why_so_many_bytes = sent_for_each(
    lambda trial: trial.case.args[0],
    "of {number} micro-batches of a large model the gradients are sent {number} times: once for "
    "each. A mean of sums is the sum of means: which of them is cheaper to send?",
    "{times} times the bytes of one all-reduce are sent. Accumulate first; then each gradient has "
    "to travel once",
)


EXERCISE = RankExercise(
    "3.12",
    "accumulate_step",
    cases=[
        At(World(2), (3,), ", 3 micro-batches each"),
        At(World(3), (4,), ", 4 micro-batches each"),
        At(World(2), (1,), ", 1 micro-batch each"),
    ],
    work=take_steps,
    known=known_of_large,
    found=found_on,
    facts=[
        Holds("followed", lambda followed: len(followed) == STEPS,
              lambda followed: f"{len(followed)} optimizer steps in {STEPS} calls",
              "a call is one step: optimizer.step() once, after the last micro-batch"),
        weights_follow_gradients,
        Equals("followed", means, mistakes, tells=told_apart),
        leaves_alone,
        right_if_large(what="the gradient that the step follows,"),
        Travels(one_exchange),
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

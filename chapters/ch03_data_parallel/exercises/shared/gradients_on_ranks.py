"""Gradients on ranks, before and after an answer averages them.

The initial values are known without asking the ranks.
"""

import torch
import torch.distributed as dist

from coursekit.kit.collective_exercise import numbers
from coursekit.kit.observed_calls import AllRequests
from coursekit.kit.reference_training import (
    SAMPLES,
    EveryKind,
    equal_models,
    loss_of,
    share_of,
    state_of,
)

from ..start_equal.cases import fill
from .mean_costs import average_large
from .state_snapshot import StateSnapshot

STEPS, RATE = 3, 4.0  # a rate so large that weights show the rounding of their gradients

EVERYWHERE, SOME_NONE = "a gradient everywhere", "None on some ranks"

TRAINING, COST = f"{STEPS} steps", "a large model"


def average_on_rank(given, answer, group, case):
    (tried,) = case.args
    if tried == TRAINING:
        return train_by(lambda model: answer(given(model), group), group)
    found = average_once(given, answer, group, tried != EVERYWHERE)
    return found | (average_large(given, answer, group) if tried == COST else {})


def average_once(given, answer, group, some_none):
    """Return the weights and gradients after the answer, and requests that it did not wait for."""
    place = dist.get_rank(group)
    model = fill(EveryKind(), place)
    give_gradients(model, place, some_none)
    argument = given(model)
    alone = StateSnapshot(model, argument)
    with AllRequests() as requests:
        answer(argument, group)
    grad = gradients_of(model)
    nan = [name for name, x in grad.items() if x is not None and x.isnan().any()]
    waiting = [call.name for call, *_ in requests.begun]
    found = {"waiting": waiting, "touched": alone.find_changes()}
    return found | {"after": state_of(model), "grad": grad, "nan": nan}


def give_gradients(model, place, some_none=False):
    """Set the gradients of trainable parameters, or leave some None that other ranks have."""
    for salt, parameter in enumerate(model.parameters(), 100):
        if parameter.requires_grad:
            whole = numbers(place, parameter.shape, parameter.dtype, salt) + 8 * place
            parameter.grad = whole / 3  # not exact in float32
    if some_none:
        model.unused.grad = model.alike[place].grad = None
    if some_none and place == 0:
        model.norm.bias.grad = None  # a bucket by itself, see average_buckets


def gradients_of(model):
    """Return {name: a copy of `.grad`, or None}."""
    return {
        name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()
    }


def train_by(synchronize, group):
    """Return the weights after some steps on a share of each batch."""
    (mine,) = equal_models(1)
    n, place = dist.get_world_size(group), dist.get_rank(group)
    train(mine, share_of(place, n), n / SAMPLES, lambda: synchronize(mine))
    return {"trained": state_of(mine)}


def train(model, share, factor, synchronize):
    for step in range(STEPS):
        loss_of(model, step, share, factor).backward()
        synchronize()
        descend(model)


@torch.no_grad()
def descend(model):
    """Take a step of SGD by hand, because a rank's first torch.optim may import for seconds."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter -= RATE * parameter.grad
            parameter.grad = None

"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit.reference_training import RATE, flat, model_of, note_gradients, uneven_loss

from ..shared.large_models import cost_of_layers
from ..shared.micro_batches import pieces_of
from ..shared.state_snapshot import StateSnapshot

STEPS, LEFT = 3, 0.125  # LEFT is in every `.grad`, from an earlier backward


def take_steps(answer, group, case):
    """Return the weights after each step, and the gradients that each step has found."""
    (number,) = case.args
    rank, n, model, weights = dist.get_rank(), dist.get_world_size(), model_of(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    followed, touched = note_gradients(optimizer, model), []
    for parameter in model.parameters():  # old values must not count
        parameter.grad = torch.full_like(parameter, LEFT)
    for step in range(STEPS):
        pieces = pieces_of(n, step, number)[rank]
        alone = StateSnapshot(model, pieces)
        answer(model, uneven_loss, pieces, optimizer)
        touched += alone.find_changes()
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

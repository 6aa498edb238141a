"""The cases, and the code that runs next to the answer."""

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from coursekit.kit.reference_training import gradients_in, model_of, uneven_loss

from ..shared.large_models import cost_of_layers, make_rebuilt_ddp
from ..shared.micro_batches import format_micro_batches, pieces_of
from ..shared.state_snapshot import StateSnapshot
from .forward_count import count_held_forwards

CALLS = (4, 1, 2)  # micro-batches of each call


def accumulate(answer, group, case):
    """Return the gradients after each call, and how the micro-batches went through the model."""
    rank, n = dist.get_rank(), dist.get_world_size()
    ddp, found, samples, backwards = DistributedDataParallel(model_of(rank)), {}, [], []
    next(ddp.parameters()).register_post_accumulate_grad_hook(backwards.append)
    ddp.module.register_forward_pre_hook(lambda _, inputs: samples.append(len(inputs[0])))
    held, touched = count_held_forwards(ddp.module), []
    for step, number in enumerate(CALLS):
        ddp.zero_grad()
        pieces = pieces_of(n, step, number)[rank]
        alone = StateSnapshot(ddp, pieces, weights=True)
        answer(ddp, uneven_loss, pieces)
        touched += alone.find_changes()
        found[name_of(number)] = gradients_in(ddp)
    counts = {"samples": max(samples, default=0), "backwards": len(backwards)}
    counts |= {"held": max(held, default=0), "touched": touched}
    return {"grad": found} | counts | cost_of_call(answer, rank)


def name_of(number) -> str:
    return f"a call with {format_micro_batches(number)}"


def cost_of_call(answer, rank):
    return cost_of_layers(
        lambda ddp, pieces: answer(ddp, uneven_loss, pieces), rank, CALLS[0], make_rebuilt_ddp
    )  # fmt: skip

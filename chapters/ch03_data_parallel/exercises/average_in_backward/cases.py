"""The cases, and the code that runs next to the answer."""

import contextlib
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

from coursekit.kit import measure_answer
from coursekit.kit.observed_calls import AllRequests
from coursekit.kit.reference_training import batch_of, flat
from pedagogy_lib.basics.closeness import close

from ..shared.large_models import cost_of_layers
from ..shared.state_snapshot import StateSnapshot
from .two_biases import own_model

BACKWARDS = ("the first backward", "the second, which adds to it")


def run_backwards(answer, group, case):
    """Return the gradients of each backward, and whatever else the answer has changed."""
    (is_frozen,), rank = case.args, dist.get_rank()
    model = own_model(rank, is_frozen)
    trained = [p for p in model.parameters() if p.requires_grad]
    requests, ready = AllRequests(), []
    for p in trained:  # before the answer's hooks, to note the requests made until then
        p.register_post_accumulate_grad_hook(lambda _: ready.append(len(requests.made)))
    alone, patches = StateSnapshot(model, weights=True), what_is_patched(model)
    answer(model)
    found = {"grad": {}, "late": False, "moved": 0.0, "touched": alone.find_changes()}
    found["thawed"] = is_frozen and model[1].weight.requires_grad
    found["patched"] = [name for name, was in patches.items()
                        if what_is_patched(model).get(name) is not was]  # fmt: skip
    for number, name in enumerate(BACKWARDS):
        batch, before = batch_of(rank, number), flat(model.parameters())
        dist.barrier()
        if rank and not (number or is_frozen):
            time.sleep(0.2)  # so that it shows if an answer does not wait
        with measure_answer(), requests if not number else contextlib.nullcontext():
            F.mse_loss(model(batch[0]), batch[1]).backward()
        found["grad"][name] = grad = flatten_gradients(trained)
        found["moved"] = max(found["moved"], (flat(model.parameters()) - before).abs().max().item())
        dist.barrier()
        time.sleep(0.02)
        found["late"] |= not close(flatten_gradients(trained), grad)
    found["ready"] = ready[: len(trained)]  # in the first backward
    return found | ({} if is_frozen else cost_of_backward(answer, rank))


def what_is_patched(model) -> dict:
    """Return the functions that all backwards and forwards use, which no hook needs to patch."""
    return {
        "torch.Tensor.backward": torch.Tensor.backward,
        "torch.autograd.backward": torch.autograd.backward,
        "model.forward": getattr(model.forward, "__func__", None),
        "the model's class": type(model),
    }


def flatten_gradients(parameters):
    return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)


def cost_of_backward(answer, rank):
    def call(model, pieces):
        ((inputs, targets),) = pieces
        torch.autograd.backward([F.mse_loss(model(inputs), targets)])

    def prepare(model, batch):
        answer(model)
        return model

    return cost_of_layers(call, rank, prepare=prepare)

"""The code that runs next to the answer."""

import gc
from functools import partial

import torch.distributed as dist

from coursekit.kit.reference_training import SAMPLES, equal_models, loss_of, share_of
from pedagogy_lib.measuring.recorder import mark, measure, peak_bytes_in, traffic_in

from ..shared.one_process_reference import Stack, make_optimizer
from ..shared.zero3_training import Plan, Training

LARGE = {"width": 64, "inner": (300, 280, 310)}

PHASES = ("forward", "backward", "step")


def train(answer, group, case):
    if not isinstance(case, Plan):
        return cost_of_step(answer)
    training = Training(answer, group, case)
    training.run()
    return {"weights": training.weights}


def cost_of_step(answer):
    """Return the costs of the second step, because the first may differ.

    sent     bytes sent in forward, backward and step
    at_rest  bytes of parameters and of gradients after the step
    at_most  peak bytes of parameters in forward and backward
    """
    gc.collect()  # frees engines of earlier cases, so that they do not count
    with measure("before"):
        pass
    before = peak_bytes_in("before")
    model = equal_models(1, partial(Stack, **LARGE))[0]
    layers, place, n = list(model.layers), dist.get_rank(), dist.get_world_size()
    zero = answer(model, make_optimizer, layers)
    for unit in zero.units.values():
        mark(unit.flat, "parameters")
    for step in ("first", "second"):
        dist.barrier()
        with measure(f"{step} forward"):
            loss = loss_of(model, len(step), share_of(place, n), n / SAMPLES)
        with measure(f"{step} backward"):
            loss.backward()
        with measure(f"{step} step"):
            zero.step()
    del loss
    with measure("rest"):
        pass
    taken = lambda label, kind: peak_bytes_in(label)[kind] - before[kind]  # noqa: E731
    return {
        "sent": [traffic_in(f"second {phase}")[1] for phase in PHASES],
        "at_rest": (taken("rest", "parameters"), taken("rest", "gradients")),
        "at_most": [taken(f"second {phase}", "parameters") for phase in PHASES[:2]],
    }

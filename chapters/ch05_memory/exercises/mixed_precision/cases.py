"""The cases, and the code that runs next to the answer."""

from functools import partial
from types import SimpleNamespace

import torch
from torch import nn
from torch.optim import SGD, Adam

from coursekit.kit.collective_exercise import numbers
from coursekit.kit.single_rank import most_bytes
from pedagogy_lib.basics.closeness import close

SHAPES = [(3, 4), (5,), (2, 3), ()]

FROZEN, MISSING = 1, 2  # never has a gradient; lacks one in some steps

COUNT, SIZE = 16, 1000  # parameters and elements of each, for counting bytes


def draw(salt):
    return [numbers(9, shape, torch.float32, salt + i) for i, shape in enumerate(SHAPES)]


def gradients(steps, missing=()):
    """Return a list of gradients for each step: one per parameter, or None.

    missing  steps in which parameter MISSING has no gradient
    """
    found = [[(x - 4) * 0.375 for x in draw(10 + 10 * step)] for step in range(steps)]
    for step, of_step in enumerate(found):
        of_step[FROZEN] = None
        of_step[MISSING] = None if step in missing else of_step[MISSING]
    return found


MOMENTUM = partial(SGD, lr=2.0**-6, momentum=0.5)

TRIALS = {
    "SGD, bfloat16": (torch.bfloat16, partial(SGD, lr=2.0**-6), gradients(6)),
    "momentum, gradients missing, bfloat16": (torch.bfloat16, MOMENTUM, gradients(6, (2, 4))),
    "momentum, float16": (torch.float16, MOMENTUM, gradients(6)),
    "50 small steps, bfloat16": (torch.bfloat16, partial(SGD, lr=2.0**-11), gradients(1) * 50),
}

STEPS_ON = {
    "the parameters of the model": "the optimizer gets the bfloat16 parameters themselves: what a "
    "step adds is rounded away. It steps on copies in float32",
    "numbers in float64": "float64 has twice the bytes that a master has: .float()",
    "numbers of two bytes": "the masters are copies, but not in float32: a copy has the same "
    "dtype, unless it is told otherwise: .float()",
    "a tensor that has not the values of any parameter": "a master begins as a copy of its "
    "parameter, with the same shape and the same values: p.detach().float()",
}


def make_parameters(dtype):
    return [nn.Parameter((x / 4).to(dtype), i != FROZEN) for i, x in enumerate(draw(0))]


def watch_optimizer(make_optimizer):
    """Return a function that makes the same optimizer, and a record of what it does."""
    seen = SimpleNamespace(masters=[], steps=[], optimizer=None, made=0)

    def make(masters):
        optimizer = seen.optimizer = make_optimizer(masters)
        seen.made += 1
        seen.masters = [p for group in optimizer.param_groups for p in group["params"]]
        optimizer.register_step_post_hook(lambda *_: seen.steps.append(1))
        return optimizer

    return make, seen


def backward(parameters, gradients):
    """Add to `.grad` like the backward of a loss."""
    pairs = [(p, g.to(p.dtype)) for p, g in zip(parameters, gradients) if g is not None]
    torch.autograd.backward(*zip(*pairs))


def values_of(tensors) -> dict:
    return {f"parameter {i}": x.detach().double() for i, x in enumerate(tensors)}


def train(answer, dtype, make_optimizer, gradients):
    """Return the findings after each step."""
    parameters, (make, seen) = make_parameters(dtype), watch_optimizer(make_optimizer)
    mixed = answer((p for p in parameters), make)
    found = {"masters": [fault_of(master, parameters) for master in seen.masters]}
    if not found["masters"] or any(found["masters"]):
        return found
    first, ordinary = values_of(seen.masters), train_in_float32(dtype, make_optimizer, gradients)
    found["no_parameters"] = not list(mixed.parameters) if hasattr(mixed, "parameters") else False
    found |= {k: [] for k in ("steps", "value_after", "dtypes", "zeros", "left", "in_masters")}
    for of_step, right in zip(gradients, ordinary):
        backward(parameters, of_step)
        mixed.step()
        found["steps"].append(len(seen.steps))
        found["value_after"].append(values_of(parameters))
        found["dtypes"] += [str(p.dtype) for p in parameters if p.dtype != dtype]
        if not close(found["value_after"][-1], right):
            continue  # wrong values are reported before gradients that are left over
        for name, tensors in {"left": parameters, "in_masters": seen.masters}.items():
            for gradient in (x.grad for x in tensors if x.grad is not None):
                found[name if gradient.any() else "zeros"].append(gradient)
    found["made_again"] = seen.made - 1
    return found | {"is_moved": not close(first, values_of(seen.masters))}


def fault_of(master, parameters) -> str:
    alike = [p for p in parameters if p.shape == master.shape and bool((p == master).all())]
    is_faulty = (
        any(master is p for p in parameters), master.dtype == torch.float64,
        master.dtype != torch.float32, not alike,
    )  # fmt: skip
    return next((fault for fault, is_so in zip(STEPS_ON, is_faulty) if is_so), "")


def train_in_float32(dtype, make_optimizer, gradients, recreate=False, zeros=False) -> list[dict]:
    """Return the values after each step of an ordinary float32 training run, rounded to `dtype`.

    recreate  whether each step starts from rounded values
    zeros     whether a missing gradient becomes zeros
    """
    parameters, found = make_parameters(torch.float32), []
    optimizer = make_optimizer(parameters)
    for of_step in gradients:
        optimizer.zero_grad()
        backward(parameters, of_step)
        for p in parameters if zeros else ():
            p.grad = torch.zeros_like(p) if p.grad is None and p.requires_grad else p.grad
        optimizer.step()
        found.append(values_of(p.to(dtype) for p in parameters))
        for p in parameters if recreate else ():
            p.data = p.data.to(dtype).float()
    return found


def count_bytes(answer):
    """Return bytes per number, with Adam.

    "more"     between steps, besides parameters, masters and the optimizer's state
    "in_step"  at the peak of a step, 2 for the parameter included
    """
    parameters = [nn.Parameter(torch.ones(SIZE, dtype=torch.bfloat16)) for _ in range(COUNT)]
    gradients = [torch.ones(SIZE, dtype=torch.bfloat16) for _ in range(COUNT)]
    before, (make_optimizer, seen) = most_bytes()["total"], watch_optimizer(partial(Adam, lr=0.1))
    mixed = answer((p for p in parameters), make_optimizer)
    backward(parameters, gradients)
    mixed.step()
    backward(parameters, gradients)
    in_step = most_bytes(mixed.step)["total"] - before
    state = [x for of in seen.optimizer.state.values() for x in of.values()]
    more = most_bytes()["total"] - before - sum(x.nbytes for x in seen.masters + state)
    return {"more": more / COUNT / SIZE, "in_step": 2 + in_step / COUNT / SIZE}

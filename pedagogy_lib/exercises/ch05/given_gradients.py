"""Trainings whose gradients are given, not computed: what the check of 5.3 tries on a rank.

So it is known what has to become of them. The truth is an ordinary training in float32, with the
same optimizer.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

# ---- What is tried ----------------------------------------------------------------------------

SHAPES = [(3, 4), (5,), (2, 3), ()]
FROZEN = 1  # which of them
BFLOAT16, FLOAT16 = torch.bfloat16, torch.float16


@dataclass(frozen=True)
class Plan:
    """A training whose gradients are known.

    start      values of the parameters
    gradients  for each step one for each parameter, or None
    """

    name: str
    dtype: torch.dtype
    make_optimizer: partial
    start: list[Tensor]
    gradients: list[list[Tensor | None]]

    def __str__(self):
        return f"{self.name}, {str(self.dtype).removeprefix('torch.')}"


def plan_of(name, dtype, make_optimizer, missing=""):
    """Random numbers. In each step of the digits in `missing`, parameter 2 has no gradient."""
    source = torch.Generator().manual_seed(len(name))
    draw = lambda shape: torch.randn(shape, generator=source).to(dtype)  # noqa: E731
    gradients = [list(map(draw, SHAPES)) for _ in range(6)]
    for step, of_step in enumerate(gradients):
        of_step[FROZEN] = None
        of_step[2] = None if str(step) in missing else of_step[2]
    return Plan(name, dtype, make_optimizer, list(map(draw, SHAPES)), gradients)


def small_steps(count=50):
    """No step alone changes a bfloat16: the nearest ones are 0.0078 apart, and it adds 0.0005."""
    start = [torch.tensor([1.5, 1.25, -1.125], dtype=BFLOAT16)]
    slope = torch.tensor([1.0, 0.75, -1.5], dtype=BFLOAT16)
    sgd = partial(torch.optim.SGD, lr=2.0**-11)
    return Plan(f"{count} small steps", BFLOAT16, sgd, start, [[slope]] * count)


PLANS = [
    plan_of("SGD", BFLOAT16, partial(torch.optim.SGD, lr=0.05)),
    plan_of("Adam, gradients missing", BFLOAT16, partial(torch.optim.Adam, lr=0.05), "24"),
    plan_of("momentum", FLOAT16, partial(torch.optim.SGD, lr=0.05, momentum=0.9)),
    small_steps(),
]  # fmt: skip


# ---- On a rank -------------------------------------------------------------------------------


class Watched:
    """Makes an optimizer, and knows then what it steps on, and how often."""

    def __init__(self, make_optimizer):
        self.make_optimizer, self.optimizer, self.steps = make_optimizer, None, 0

    def __call__(self, masters):
        self.optimizer = self.make_optimizer(masters)
        self.optimizer.register_step_post_hook(self.count)
        return self.optimizer

    def count(self, *_):
        self.steps += 1

    @property
    def masters(self) -> list[Tensor]:
        groups = self.optimizer.param_groups if self.optimizer else ()
        return [p for group in groups for p in group["params"]]


def parameters_of(plan, dtype):
    frozen = FROZEN if len(plan.start) > 1 else None
    return [
        nn.Parameter(x.to(dtype, copy=True), requires_grad=index != frozen)
        for index, x in enumerate(plan.start)
    ]


def backward(parameters, gradients):
    """As a loss's backward: add to what is in `.grad`."""
    pairs = [(p, g.to(p.dtype)) for p, g in zip(parameters, gradients) if g is not None]
    torch.autograd.backward(*zip(*pairs))


def values_of(tensors):
    return [x.detach().clone() for x in tensors]


def train_on_rank(answer) -> list[dict]:
    return [train(answer, plan) for plan in PLANS]


def train(answer, plan) -> dict:
    """What is seen after each step, the truth, and what misconceptions lead to.

    If the masters are none, there is nothing to see but that.
    """
    parameters, watch = parameters_of(plan, plan.dtype), Watched(plan.make_optimizer)
    mixed = answer((p for p in parameters), watch)
    kinds = [kind_of(master, parameters) for master in watch.masters]
    if set(kinds) != {RIGHT_KIND}:
        return {"kinds": kinds}
    first, seen = values_of(watch.masters), []
    for gradients in plan.gradients:
        backward(parameters, gradients)
        mixed.step()
        seen.append({
            "values": values_of(parameters),
            "left": [p.grad for p in parameters],
            "left_in_masters": [m.grad for m in watch.masters],
            "steps": watch.steps,
            "moved": not all(map(torch.equal, first, values_of(watch.masters))),
        })  # fmt: skip
    return {
        "kinds": kinds,
        "seen": seen,
        "truth": train_in_float32(plan),
        "recreated": train_in_float32(plan, recreate=True),
        "zeros": train_in_float32(plan, zeros=True),
    }


def kind_of(master, parameters):
    """Its dtype; whether it is one of the parameters, has one's values, and is an nn.Parameter."""
    same = any(m.shape == master.shape and bool((m == master).all()) for m in parameters)
    is_own = isinstance(master, nn.Parameter)
    return master.dtype, any(master is p for p in parameters), same, is_own


RIGHT_KIND = torch.float32, False, True, True


def train_in_float32(plan, recreate=False, zeros=False) -> list[list[Tensor]]:
    """After each step, the parameters of an ordinary training with the same gradients.

    recreate  whether each step begins with what it was, rounded
    zeros     whether a missing gradient is one of zeros
    """
    parameters, found = parameters_of(plan, torch.float32), []
    optimizer = plan.make_optimizer(parameters)
    for gradients in plan.gradients:
        optimizer.zero_grad()
        backward(parameters, gradients)
        for p in parameters if zeros else ():
            p.grad = torch.zeros_like(p) if p.grad is None and p.requires_grad else p.grad
        optimizer.step()
        found.append(values_of(parameters))
        for p in parameters if recreate else ():
            p.data = p.data.to(plan.dtype).float()
    return found

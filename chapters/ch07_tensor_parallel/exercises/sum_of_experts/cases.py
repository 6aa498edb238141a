"""The code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import Rejection
from coursekit.kit.forward_backward import run_both_ways
from pedagogy_lib.basics.units import brief

SAMPLES, WIDTH, FEATURES = 4, 3, 5

BEFORE = {  # {operation before the sum: (function, its derivative, from its result)}
    "relu": (torch.relu, lambda h: (h > 0).double()),
    "sigmoid": (torch.sigmoid, lambda h: h * (1 - h)),
    "exp": (torch.exp, lambda h: h),
    "nothing": (lambda x: x.clone(), torch.ones_like),
}


def expert_inputs(rank):
    """Return x, which is the same on all ranks, the rank's matrix, and the slope of the sum."""
    shapes = {0: (SAMPLES, WIDTH), 10 + rank: (WIDTH, FEATURES), 1: (SAMPLES, FEATURES)}
    return [
        torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        for seed, shape in shapes.items()
    ]


def try_expert(answer, group, case):
    if not (isinstance(answer, type) and issubclass(answer, torch.autograd.Function)):
        what = f"check() was given {brief(answer, 60)}"
        raise Rejection(what, "it is to remain a class SumOfExperts(torch.autograd.Function), with "
                      "forward and backward; give check() the class itself")  # fmt: skip
    (x, a, slope), (before, _), noted = expert_inputs(dist.get_rank()), BEFORE[case.args[0]], []
    part = before(x @ a.requires_grad_())
    as_it_was = part.detach().clone()

    def call():
        y = answer.apply(part)
        noted.append(isinstance(y, torch.Tensor) and y.data_ptr() != part.data_ptr())
        noted.append(not torch.equal(part.detach(), as_it_was))  # now, as it may be put back later
        return y

    found = run_both_ways(call, {"its matrix": a}, slope)
    found |= {"argument": part.detach(), "is_copy": noted[0]}
    if case.args == ("nothing",):  # after the others, it makes a gradient wrong
        found["overwritten"] = noted[1] or not torch.equal(part.detach(), as_it_was)
    return found

"""The code that runs next to the answer, and its inputs."""

import torch
import torch.distributed as dist
from torch import nn

from coursekit.kit import measure_answer
from coursekit.kit.collective_exercise import make_noncontiguous, numbers
from coursekit.kit.observed_calls import AllRequests

from ..shared.meshes import SmallMesh

SHAPES = {"matrix": (4, 3), "row": (5,), "number": (), "frozen": (2, 2), "cube": (2, 1, 3)}

FROZEN, ALL = ("frozen",), tuple(SHAPES)  # FROZEN has no gradients

JOINT = (("pp", "tp"),)


def gradient_of(name, place, dtype=torch.float64) -> torch.Tensor:
    shape = SHAPES[name]
    drawn = numbers(place, shape, dtype, [*SHAPES].index(name))
    return make_noncontiguous(drawn) if len(shape) > 1 else drawn


def average(answer, group, case):
    sizes, names, frozen, dtype = case.args
    mesh, place = SmallMesh(sizes, JOINT), dist.get_rank()
    parameters = {name: nn.Parameter(torch.ones(SHAPES[name], dtype=dtype)) for name in names}
    for name in trainable_names(case):
        parameters[name].grad = gradient_of(name, place, dtype)
    with measure_answer(), AllRequests() as requests:
        answer(list(parameters.values()), mesh)
        requests.need_waited()
    return {
        "frozen": any(parameters[name].grad is not None for name in frozen),
        "weights": not all(p.detach().eq(1).all() for p in parameters.values()),
        "gradients": {name: parameters[name].grad for name in trainable_names(case)},
    }


def trainable_names(case) -> list[str]:
    """Return the names of the parameters that have gradients."""
    _, names, frozen, _ = case.args
    return [name for name in names if name not in frozen]

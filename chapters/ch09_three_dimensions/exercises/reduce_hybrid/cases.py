"""The code that runs next to the answer, and its inputs."""

from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from coursekit.kit import measure_answer
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.observed_calls import AllRequests

from ..shared.meshes import SmallMesh

SHAPES = {"a": (4, 3), "b": (7,), "unused": (2,)}  # the last has no gradient


def gradient_of(name, rank, backward):
    if name == "unused":
        return None
    return numbers(rank, SHAPES[name], torch.float64, [*SHAPES].index(name) + 10 * backward)


def reduce(answer, group, case):
    sizes, backwards = case.args
    mesh, rank = SmallMesh(sizes), dist.get_rank()
    module = nn.ParameterDict(
        {name: nn.Parameter(torch.ones(s, dtype=torch.float64)) for name, s in SHAPES.items()}
    )
    sgd = partial(torch.optim.SGD, lr=0.1)
    zero = answer.lab.HybridZero1(module, sgd, (), mesh["shard"], mesh["replicate"])
    (unit,) = zero.units.values()
    shard = unit.shard
    for backward in range(backwards):
        for name, p in zip(SHAPES, unit.parameters):
            p.grad = gradient_of(name, rank, backward)
        with measure_answer(), AllRequests() as requests:
            answer(unit, mesh["replicate"])
            requests.need_waited()
    return {
        "grad": unit.shard.grad,
        "unset": unit.shard.grad is None,
        "replaced": unit.shard is not shard,
        "left": any(p.grad is not None for p in unit.parameters),
        "weights": not all(p.detach().eq(1).all() for p in unit.parameters),
    }

"""The code that runs next to the answer."""

import torch
import torch.distributed as dist
from torch import nn

from coursekit.kit import measure_answer
from coursekit.kit.collective_exercise import LARGE, numbers
from pedagogy_lib.basics.closeness import close

SHAPES = [(2, 3), (5,), (), (5, 1)]  # 17 numbers: padding for 2, 3 and 4 ranks

CALLS = ("call 1", "call 2")


def reduce_twice(answer, group, case):
    alone, is_measured = case.args
    unit = unit_of(answer.lab, SHAPES, group, alone)
    weights, names = [p.detach().clone() for p in unit.parameters], set(vars(unit))
    found = {"part": {}, "kept": {}, "left": []}
    for number, call in enumerate(CALLS):
        for p, gradient in zip(unit.parameters, gradients_at(dist.get_rank(group), number)):
            p.grad = gradient
        answer(unit)
        part = unit.shard.grad
        found["part"][call] = None if part is None else part.detach().clone()
        found["kept"] = part is not None and part.untyped_storage().nbytes() - part.nbytes
        found["left"] += [p.grad for p in unit.parameters if p.grad is not None]
    found["noted"] = sorted(set(vars(unit)) - names)
    found["changed"] = not close([p.detach() for p in unit.parameters], weights)
    if is_measured:
        reduce_large(answer, group, alone)
    return found


def reduce_large(answer, group, alone):
    large = unit_of(answer.lab, [(LARGE + 1,)], group, alone)
    large.parameters[0].grad = torch.ones_like(large.parameters[0])
    dist.barrier(group)
    with measure_answer():
        answer(large)


def unit_of(lab, shapes, group, alone):
    """Return a `Unit` of float64 parameters with these shapes, the same numbers on all ranks.

    alone  whether its shard has its own memory instead of being a view into the flat tensor
    """
    return lab.Unit([nn.Parameter(numbers(0, s, torch.float64)) for s in shapes], group, alone)


def gradients_at(place, number) -> list[torch.Tensor | None]:
    """Return the gradients, which differ at each place.

    The place whose index is `number` has none at all, and the last parameter has none at any place.
    """
    if place == number:
        return [None] * len(SHAPES)
    shapes = enumerate(SHAPES[:-1])
    given = [numbers(place, s, torch.float64, 10 * number + k) + 8 * place for k, s in shapes]
    return [*given, None]


def part_of(flat, n, place):
    """Return a place's part of a flat tensor that is padded and cut into n parts."""
    each = -(-len(flat) // n)
    part = flat.new_zeros(each)
    mine = flat[place * each : (place + 1) * each]
    part[: len(mine)] = mine
    return part

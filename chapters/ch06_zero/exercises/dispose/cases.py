"""The code that runs next to the answer."""

from operator import is_not

import torch

from coursekit.kit.collective_exercise import numbers
from pedagogy_lib.measuring.recorder import measure, peak_bytes_in, traffic_in

from ..shared.units_in_memory import SHAPES, UnitProbe, length_of_shard


def dispose_gathered(answer, group, case):
    held = UnitProbe(answer, group, case.args[0])
    unit, parameters = held.unit, list(held.unit.parameters)
    unit.shard.grad = torch.ones_like(unit.shard)
    elements = unit.flat.numel()
    before = bytes_alive(f"before, {case}")
    with measure(f"during, {case}"):
        answer(unit)
    after = bytes_alive(f"after, {case}")
    found = held.look() | {
        "shape": list(unit.flat.shape),
        "left": (held.storage.nbytes(), sum(p.numel() for p in unit.parameters)),
        "other": len(unit.parameters) != len(parameters)
        or any(map(is_not, unit.parameters, parameters))
        or not all(p.requires_grad and p.is_leaf for p in parameters),
        "whole": [list(p.shape) for p in parameters if p.numel()],
        "dtypes": [str(p.dtype) for p in parameters if p.dtype != case.args[0]],
        "gradient": unit.shard.grad,
        "sent": traffic_in(f"during, {case}")[1],
        "taken": max(0, after - held.storage.nbytes() - (before - unit.flat.nbytes)),
    }
    if unit.flat.numel() == elements:
        held.resize(elements)
        unit.flat.copy_(make_refill(case, unit.n))
        found["slopes"] = held.slope()
    return found


def make_refill(case, n) -> torch.Tensor:
    """Return the numbers with which the flat tensor is refilled after the call."""
    return numbers(9, (n * length_of_shard(n, SHAPES),), case.args[0])


def bytes_alive(label) -> int:
    with measure(label):
        pass
    return peak_bytes_in(label)["total"]

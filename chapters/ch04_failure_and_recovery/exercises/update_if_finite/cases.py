"""The code that runs next to the answer: a few steps, some of which have NaN on one rank."""

import math

import torch
import torch.distributed as dist

from coursekit.kit import Rejection, measure_answer
from coursekit.kit.observed_calls import all_waited
from coursekit.kit.results import NO_RETURN

STEPS = {  # for each rank in turn: the first number of its gradients in this step, or all of them
    "calm": (1.0, 2.0, 4.0, 8.0),
    "NaN on rank 1": (1.0, math.nan, 4.0, 8.0),
    "infinite on rank 0": (math.inf, 2.0, 4.0, 8.0),
    "NaN on all": (math.nan,) * 4,
    "overflow": (3e38,) * 4,
    "both infinities": (math.inf, -math.inf, 1.0, 1.0),
    "NaN in the last place": ([1.0, 3.0, math.nan], 2.0, 4.0, 8.0),
    "minus infinity on rank 1": (1.0, -math.inf, 4.0, 8.0),
    "large numbers": ([2e38, 0.0, 1.0], [0.0, 2e38, 1.0]),
}


def flat_of(step, rank, dtype) -> torch.Tensor:
    numbers = STEPS[step][rank]
    numbers = numbers if isinstance(numbers, list) else [numbers, 3.0, 5.0]
    return torch.tensor(numbers, dtype=dtype)


def take_steps(answer, group, case):
    """Take the steps of a case; weights are what the updates have added up to."""
    steps, dtype = case.args
    weights, values, updates = torch.zeros(3, dtype=dtype), [], []

    def update(total):
        if not isinstance(total, torch.Tensor) or total.shape != weights.shape:
            raise Rejection(f"update({total!r:.40}) was called", "update takes the sum")
        weights.add_(total)
        updates[-1] += 1

    for step in steps:
        updates.append(0)
        with measure_answer(), all_waited():
            value = answer(flat_of(step, dist.get_rank(group), dtype), update, group)
        if value is None:
            raise Rejection("it returned None", NO_RETURN)
        if type(value).__name__ not in ("bool", "bool_"):
            told = "asked is True or False; of a tensor, .item() makes one"
            raise Rejection(f"it returned {value!r:.40}", told)
        values.append(value)
    return {"weights": weights.tolist(), "taken": list(map(bool, values)), "updates": updates}

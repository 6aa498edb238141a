"""The code that runs next to the answer: a few steps, some of which have NaN on one rank."""

import math

import torch
import torch.distributed as dist

from coursekit.kit import Rejection, measure_answer
from coursekit.kit.results import NO_RETURN

STEPS = {  # for each rank in turn: the first number of its gradients in this step
    "calm": (1.0, 2.0, 4.0, 8.0),
    "NaN on rank 1": (1.0, math.nan, 4.0, 8.0),
    "infinite on rank 0": (math.inf, 2.0, 4.0, 8.0),
    "NaN on all": (math.nan,) * 4,
    "overflow": (3e38,) * 4,
    "both infinities": (math.inf, -math.inf, 1.0, 1.0),
}


def flat_of(step, rank) -> torch.Tensor:
    return torch.tensor([STEPS[step][rank], 3.0, 5.0])


def take_steps(answer, group, case):
    """Take the steps of a case; weights are what the updates have added up to."""
    weights, values, updates = torch.zeros(3), [], []

    def update(total):
        if not isinstance(total, torch.Tensor) or total.shape != weights.shape:
            raise Rejection(f"update({total!r:.40}) was called", "update takes the sum")
        weights.add_(total)
        updates[-1] += 1

    with measure_answer():
        for step in case.args[0]:
            updates.append(0)
            values.append(answer(flat_of(step, dist.get_rank(group)), update, group))
    if None in values:
        raise Rejection("it returned None", NO_RETURN)
    return {"weights": weights.tolist(), "taken": list(map(bool, values)), "updates": updates}

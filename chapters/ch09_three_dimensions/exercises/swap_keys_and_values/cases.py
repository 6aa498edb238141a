"""The code that runs next to the answer, and its inputs."""

import torch
import torch.distributed as dist

from coursekit.kit import measure_answer
from coursekit.kit.collective_exercise import make_noncontiguous, numbers
from coursekit.kit.observed_calls import AllRequests


def x_of(place, shape, dtype=torch.float64) -> torch.Tensor:
    return make_noncontiguous(numbers(place, shape, dtype))


def change(answer, group, case):
    shape, split, join, dtype = case.args
    x = x_of(dist.get_rank(group), shape, dtype)
    before = x.clone()
    with measure_answer(), AllRequests() as requests:
        y = answer(x, split, join, group)
        requests.need_waited()
    return {"y": y, "changed": not x.equal(before)}


def describe_swap(shape, split, join) -> str:
    return f", {list(shape)}, split {split}, join {join}"

"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import RankCase, Rejection, measure_answer
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.observed_calls import AllRequests
from coursekit.kit.results import NO_RETURN

LENGTH = 7


def flat_of(rank, dtype) -> torch.Tensor:
    """Return small whole numbers, different on each rank, whose sum is 0."""
    flat = numbers(rank, (LENGTH,), dtype) - 3
    flat[2] -= flat.sum()
    return flat


def reduce(answer, group, case):
    told, dtype = case.args
    rank = dist.get_rank(group)
    flat = flat_of(rank, dtype)
    with measure_answer(), AllRequests() as requests:
        value = answer(flat, rank in told, group)
    requests.need_waited()
    if value is None:
        raise Rejection("it returned None", NO_RETURN)
    if not isinstance(value, bool):
        raise Rejection(f"it returned {value!r:.40}", TRUE_OR_FALSE)
    return {"flat": flat.double(), "told": value, "lost": int((~flat.isfinite()).sum())}


TRUE_OR_FALSE = (
    "asked is True or False itself: bool(…) makes one of a number, or of a tensor with one element"
)


def make_case(world, told, what, dtype=torch.float64) -> RankCase:
    return RankCase(world, (told, dtype), f", {what}")

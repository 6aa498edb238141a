"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import RankCase, Rejection, measure_answer
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.observed_calls import AllRequests
from coursekit.kit.results import NO_RETURN

LENGTH = 7


def flat_of(rank, length, dtype) -> torch.Tensor:
    """Return small whole numbers, different on each rank, of which some are negative."""
    return numbers(rank, (length,), dtype) - 3


def reduce(answer, group, case):
    told, length, dtype = case.args
    rank = dist.get_rank(group)
    flat = flat_of(rank, length, dtype)
    with measure_answer(), AllRequests() as requests:
        value = answer(flat, rank in told, group)
    requests.need_waited()
    if value is None:
        raise Rejection("it returned None", NO_RETURN)
    return {"flat": flat, "told": bool(value)}


def make_case(world, told, what, length=LENGTH, dtype=torch.float64) -> RankCase:
    return RankCase(world, (told, length, dtype), f", {what}")

"""The cases, and the code that runs next to the answer."""

import math
from numbers import Real

import torch
import torch.distributed as dist

from coursekit.kit import RankCase, Rejection, measure_answer
from coursekit.kit.collective_exercise import LARGE, numbers
from coursekit.kit.observed_calls import AllRequests
from coursekit.kit.results import NO_RETURN

CALM = [5.0] * 12

BORN_LATE = [5.0] * 9

HIGH = [40000.0] * 12

TEN = [5.0] * 10

ONE_SPIKE = [5.0] * 11 + [4000.0]

TWO_LEVELS = [1.0, 3.0] * 6

HIGH_AT_HALF_TIME = [1.0] * 5 + [9.0] * 2 + [1.0] * 5

HIGH_LATER = [1.0] * 30 + [9.0] * 29

NORM_OVERFLOWS = (
    "the numbers of the sum are finite, and their norm is not: a step is sane if the norm is finite"
)

REPLACED = {"nan": -1.0, "posinf": -2.0, "neginf": -3.0}

KINDS = {  # for each rank (the last one for all further ranks), the first numbers of its gradients
    "calm": ([3.0, 1.0], [0.0, 3.0]),
    "spike": ([300.0, 0.0], [0.0, 400.0]),
    "together": ([9.0, 12.0],),
    "apart": ([60.0, 80.0], [-57.0, -76.0], [0.0, 0.0]),
    "NaN": ([3.0, 4.0], [math.nan, 1.0], [0.0, 0.0]),
    "infinite": ([math.inf, 4.0], [0.0, 0.0]),
    "both infinities": ([math.inf, 0.0], [-math.inf, 0.0]),
    "overflow": ([3e38, 0.0], [2e38, 0.0]),
    "limit": ([3.0, 0.0], [0.0, 4.0], [0.0, 0.0]),
    "six": ([6.0, 0.0], [0.0, 0.0]),
    "half": ([60000.0, 32000.0], [0.0, 25600.0], [0.0, 0.0]),
    "odd": ([1.0, 0.0], [0.0, 3.0], [0.0, 0.0]),
    "ten": ([6.0, 0.0], [0.0, 8.0]),
    "large numbers": ([1e30, 0.0], [0.0, 0.0]),
}


def flat_of(rank, kind, dtype) -> torch.Tensor:
    """Return the gradients of a rank."""
    if kind == "large":
        return numbers(rank, (LARGE,), dtype)
    of_ranks = KINDS[kind]
    return torch.tensor([*of_ranks[min(rank, len(of_ranks) - 1)], 0.0, 0.0, 0.0], dtype=dtype)


def judge(answer, group, case):
    kind, norms, times, dtype = case.args
    flat, known = flat_of(dist.get_rank(group), kind, dtype), list(norms)
    with measure_answer(), AllRequests() as requests:
        value = answer(flat, known, times, group)
    requests.need_waited()
    if value is None:
        raise Rejection("it returned None", NO_RETURN)
    if isinstance(value, torch.Tensor):
        raise Rejection(f"it returned {value!r:.40}", "asked is True or False: .item() makes one")
    if not all(isinstance(norm, Real) for norm in known):
        raise Rejection(f"norms ends with {known[-1]!r:.40}", "norms is a list of floats")
    if kind == "large numbers":  # whose norm overflows or not, as it is computed
        if known and not math.isfinite(known[-1]):
            raise Rejection(f"norms ends with {known[-1]}", NORM_OVERFLOWS)
        return {"flat": flat.double()}
    return {
        "flat": flat.nan_to_num(**REPLACED).double(),
        "sane": bool(value),
        "norms": [float(norm) for norm in known],
    }


def make_case(world, kind, norms, what, times=4.0, dtype=torch.float64) -> RankCase:
    return RankCase(world, (kind, tuple(norms), times, dtype), f", {what}")

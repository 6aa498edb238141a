"""The cases, and the code that runs next to the answer.

Whether the sum is under way while `compute` runs is observed with files, not timed. In a case that
watches one rank, the others come only when it computes, and it computes until they have the sum: an
answer that waits before it computes, or that begins afterwards, makes one of them give up.
"""

import time

import torch
import torch.distributed as dist

from coursekit.kit import measure_answer
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.observed_calls import all_waited
from coursekit.kit.rank_trials import make_shared_folder

PATIENCE = 2.0  # seconds; what is waited for comes within milliseconds
LARGE = 100_000


def tensor_of(place, case) -> torch.Tensor:
    shape, dtype = case.args[:2]
    return numbers(place, shape, dtype)


def result_of(place, case):
    whole = case.args[1] == torch.int64
    return 0 if whole else {"of place": place, "list": [place, place + 1]}


def comes(path) -> bool:
    """Wait for a file; return whether it has come in time."""
    end = time.monotonic() + PATIENCE
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.002)
    return path.exists()


def add_up(answer, group, case):
    """Run the answer on all ranks, or on the watched one while the others call dist.all_reduce."""
    watched, place = case.args[2], dist.get_rank(group)
    x, folder, called = tensor_of(place, case), make_shared_folder(), []
    computing, is_summed, found = folder / "computing", folder / "summed", {}
    at = x.data_ptr()

    def compute():
        called.append(place)
        if watched is not None:
            computing.touch()
            found["has_begun"] = comes(is_summed)
        return result_of(place, case)

    if watched not in (None, place):
        found["computes_first"] = comes(computing)
        dist.all_reduce(x, group=group)
        is_summed.touch()
        return found | {"x": x, "result": result_of(place, case), "times": 1, "moved": False}
    with measure_answer(), all_waited():
        result = answer(x, compute, group)
    return found | {"x": x, "result": result, "times": len(called), "moved": x.data_ptr() != at}

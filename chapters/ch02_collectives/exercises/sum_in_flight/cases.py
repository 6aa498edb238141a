"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import Rejection, measure_answer
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.observed_calls import AllRequests

LARGE = [(40_000,), (60_000,)]


def tensors_of(place, case) -> list[torch.Tensor]:
    shapes, dtype, *is_twice = case.args
    if is_twice:
        return [numbers(place, shapes[0], dtype)] * len(shapes)
    return [numbers(place, shape, dtype, salt) for salt, shape in enumerate(shapes)]


class FlightCount(AllRequests):
    """A record of calls that knows how many collectives were in flight at once."""

    def __init__(self):
        super().__init__()
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.most = max(self.most, len(self.begun))
        return result


def add_up(answer, group, case):
    tensors = tensors_of(dist.get_rank(group), case)
    given = list(tensors)
    with measure_answer(), FlightCount() as flight:
        sums = answer(tensors, group)
    flight.need_waited()
    places = [x.data_ptr() for x in given if x.numel()]
    if isinstance(sums, tuple):
        raise Rejection("it returned a tuple", "return a list")
    is_list = isinstance(sums, list)
    is_shared = is_list and any(isinstance(x, torch.Tensor) and x.data_ptr() in places
                                for x in sums)  # fmt: skip
    return {
        "sums": list(sums) if is_list else sums,
        "tensors": given,
        "is_shared": is_shared,
        "has_other_tensors": [id(x) for x in tensors] != [id(x) for x in given],
        "most": flight.most,
    }

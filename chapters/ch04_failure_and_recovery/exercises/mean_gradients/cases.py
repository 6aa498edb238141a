"""The cases, and the code that runs next to the answer."""

import torch

from coursekit.kit import RankCase, Rejection, measure_answer
from coursekit.kit.collective_exercise import LARGE, numbers
from coursekit.kit.diagnoses import kind_of
from coursekit.kit.observed_calls import AllRequests
from coursekit.kit.results import NO_RETURN

from . import gradients_reasons as why

ALIKE = [((4, 3), torch.float64), ((5,), torch.float64), ((), torch.float64)]

MIXED = [((4, 3), torch.float32), ((5,), torch.float64), ((), torch.bfloat16)]

HUGE = [((LARGE,), torch.float64), ((7,), torch.float64)]

PARAMETER = 900  # a salt, so that no parameter looks like a gradient


def gradients(k, kinds) -> list[torch.Tensor]:
    """Return whole numbers with exact sums; in float64, with a digit that float32 does not have."""
    found = [numbers(k, shape, dtype, salt=i) for i, (shape, dtype) in enumerate(kinds)]
    return [x * (1 + 2.0**-25) if x.dtype == torch.float64 else x for x in found]


def add_up(answer, group, case):
    m, kinds = case.args
    asked = []

    def gradients_of(k):
        if not isinstance(k, int) or not 0 <= k < m:
            raise Rejection(f"gradients_of({k!r:.20}) was called", f"there are 0 to {m - 1}")
        asked.append(k)
        return gradients(k, kinds)

    parameters = gradients(PARAMETER, kinds)
    given = list(parameters)
    with measure_answer(), AllRequests() as requests:
        value = answer(gradients_of, given, m, group)
    found = copy_returned(value, kinds)
    requests.need_waited()
    return {
        "gradients": found,
        "asked": asked,
        "changed": find_change(given, parameters, gradients(PARAMETER, kinds)),
        "shared": len({x.data_ptr() for x in value}) < len(kinds),
    }


def copy_returned(value, kinds) -> list[torch.Tensor]:
    """Copy the returned tensors now, because a request may still bring other numbers."""
    if value is None:
        raise Rejection("it returned None", NO_RETURN)
    if not isinstance(value, list | tuple):
        raise Rejection(f"it returned {kind_of(value)}", why.LIST)
    if len(value) != len(kinds) or not all(isinstance(x, torch.Tensor) for x in value):
        none = any(x is None or hasattr(x, "is_completed") for x in value)
        told = ", ".join(map(kind_of, value))
        raise Rejection(f"it returned [{told}]", why.IN_PLACE if none else why.LIST)
    return [x.detach().clone() for x in value]


def find_change(given, parameters, before) -> str:
    """Describe a change in the list of parameters or in one of them; return "" if none."""
    if len(given) != len(parameters) or any(a is not b for a, b in zip(given, parameters)):
        return "the list `parameters` has other tensors now"
    for k, (x, was) in enumerate(zip(parameters, before)):
        if x.dtype != was.dtype or not torch.equal(x, was):
            return f"parameters[{k}] has other numbers now"
        if x.requires_grad or x.grad is not None:
            name = "requires_grad" if x.requires_grad else "grad"
            return f"parameters[{k}].{name} is set now"
    return ""


def make_case(world, m, kinds=ALIKE, what="") -> RankCase:
    return RankCase(world, (m, kinds), f", {m} micro-batches{what}")

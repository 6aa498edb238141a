"""The code that runs next to the answer, and its inputs."""

import torch
import torch.distributed as dist

from coursekit.kit.collective_exercise import make_noncontiguous, numbers
from coursekit.kit.forward_backward import autograd_function, run_both_ways


def x_of(place, case) -> torch.Tensor:
    """Return the rows of the rank at `place`, not contiguous in memory."""
    sends, of_row, _ = case.args
    return make_noncontiguous(numbers(place, (sum(sends[place]), *of_row), torch.float64))


def slope_of(place, case) -> torch.Tensor:
    """Return the gradient of the rows that the rank receives, not contiguous in memory."""
    sends, of_row, _ = case.args
    return make_noncontiguous(
        numbers(place, (sum(row[place] for row in sends), *of_row), torch.float64, 7)
    )


def exchange(answer, group, case):
    sends, _, twice = case.args
    function, place = autograd_function(answer), dist.get_rank(group)
    x = x_of(place, case).requires_grad_()
    receive = [row[place] for row in sends]
    lists = list(sends[place]), list(receive)

    def go():
        y = function.apply(x, *lists, group)
        if twice:  # another exchange before the backward of the first one
            even = [1] * len(sends)
            function.apply(x.new_ones(len(sends), 2).requires_grad_(), even, even, group)
        return y

    found = run_both_ways(go, {"x": x}, slope_of(place, case))
    return found | {"lists": lists != (sends[place], receive)}


TWICE = "two exchanges, and then the backward of the first one"

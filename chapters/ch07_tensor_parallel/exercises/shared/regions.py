"""Entry to and exit from the parallel region: the trials of Copy and AllReduce."""

from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.nn.functional as F

from coursekit.kit.collective_exercise import numbers
from coursekit.kit.forward_backward import need_tensor, run_both_ways
from pedagogy_lib.basics.torch_private import is_in_storage
from pedagogy_lib.measuring.bytes_of_calls import tensors_in

SHAPE, BYTES = (2, 3), 48


def make_inputs(name, rank):
    """Return a rank's leaf, x = relu(leaf), the output's slope, and the slope through the relu.

    All ranks have the same x before Copy, and the same slope behind AllReduce.
    """
    common_x, common_slope = name == "Copy", name == "AllReduce"
    leaf = numbers(9 if common_x else rank, SHAPE, torch.float64) - 11 / 3
    slope = numbers(9 if common_slope else rank, SHAPE, torch.float64, salt=1) / 3
    return SimpleNamespace(leaf=leaf, x=F.relu(leaf), slope=slope, through=(leaf > 0) * slope)


def go_through(answer, group, case):
    of, noted, totals = make_inputs(answer.__name__, dist.get_rank()), {}, []
    x = F.relu(of.leaf.requires_grad_())  # its backward needs x unchanged

    def total(x, group=None):
        totals.append("backward" if noted else "forward")
        return answer.lab.summed(x, group)

    def call():
        more = [total] if case.args == ("total",) else []
        y = getattr(answer.lab, answer.__name__).apply(x, group, *more)
        need_tensor(y, "forward")
        noted.update(shares=is_in_storage(y, x.untyped_storage()), kept=keeps_tensors(y))
        return y

    if case.args == ("no_grad",):
        with torch.no_grad():
            found = {"y": call()}
    else:
        found = run_both_ways(call, {"x": of.leaf}, of.slope)
    found |= noted | {"touched": not torch.equal(x.detach(), of.x)}
    return found | ({"totals": totals} if case.args == ("total",) else {})


def keeps_tensors(y) -> bool:
    """Return whether the context of a Function keeps any tensor for its backward."""
    context = y.grad_fn
    kept = [*getattr(context, "__dict__", {}).values(), *getattr(context, "saved_tensors", ())]
    return bool(list(tensors_in(kept)))

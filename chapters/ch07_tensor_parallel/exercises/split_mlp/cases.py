"""The code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit.observed_calls import all_waited
from coursekit.kit.results import detach_result
from pedagogy_lib.basics.torch_private import OperatorMode

LEFT = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}  # left matrix's index


class Multiplications(OperatorMode):
    """A counter of the multiplications in matrix products: rows x inner x columns of each."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name in LEFT:
            self.count += result.numel() * args[LEFT[name]].shape[-1]
        elif name == "mul" and result.dim() > 2:  # a product that is written out, before its sum
            self.count += result.numel()
        return result


def matrices(samples, width, hidden):
    """Return x, a and b, which are the same on every rank."""
    source = torch.Generator().manual_seed(hidden)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return draw(samples, width), draw(width, hidden), draw(hidden, width)


def try_split(answer, group, case):
    given, (samples, width, hidden) = matrices(*case.args), case.args
    with all_waited() as calls, Multiplications() as work:
        y = answer(*given)
    same = map(torch.equal, given, matrices(*case.args))
    changed = [name for name, is_same in zip("xab", same) if not is_same]
    share = work.count * dist.get_world_size() / (2 * samples * width * hidden)  # of both products
    return {"y": detach_result(y), "share": share, "changed": changed, "calls": calls.made}

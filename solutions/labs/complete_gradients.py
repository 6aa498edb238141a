# Built from chapters/ch06_zero/labs/complete_gradients.py by `make build`.
"""When a gradient is complete: after one portion, or after several if modules are recomputed.

python labs/complete_gradients.py
"""

from functools import partial
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# ---- For an engine that reduces gradients within the backward ---------------------------------


class Calls:
    """The open calls of modules, which tell when a gradient is complete.

    A backward adds to each gradient once. But every recomputed part, as in labs/memory.py, runs its
    own backward inside the outer one, so a weight of two parts gets its gradient in two portions.
    It is complete when each call of its unit's module has gone back as far as its inputs.

    open     {unit: calls of its module whose backward has not reached their inputs}; a call whose
             graph is gone leaves by itself
    waiting  {unit: its parameters whose gradients may still grow}
    """

    def __init__(self, zero):
        self.zero, self.outermost = zero, None
        self.open = {unit: WeakSet() for unit in zero.units.values()}
        self.begin_backward()

    def begin_backward(self):
        self.waiting = {unit: [] for unit in self.open}
        self.outermost = number_of_backward()

    def is_complete(self, unit, parameter) -> bool:
        if number_of_backward() == self.outermost or not self.open[unit]:
            return True
        self.waiting[unit].append(parameter)
        return False

    def follow(self, module, inputs, output):
        """Note, after a module's forward, where its backward will begin and where it will end."""
        if not (torch.is_grad_enabled() and needs_gradient(output)):
            return
        unit, leads_to = self.zero.units.get(module), [x for x in inputs if needs_gradient(x)]
        call = Call(len(leads_to))  # without inputs to reach, its unit waits for the end
        output.register_hook(partial(self.goes_back, unit, call))  # the hook keeps the call
        if unit is not None:
            self.open[unit].add(call)
            for x in leads_to:
                x.register_hook(partial(self.is_back, unit, call))

    def goes_back(self, unit, call, gradient):
        """Note that a backward begins; autograd calls this first of all in the outermost one."""
        if self.zero.left is None:
            self.zero.begin_backward()
        if unit is not None and not self.zero.missing[unit]:
            self.zero.once_more(unit)

    def is_back(self, unit, call, gradient):
        call.inputs -= 1
        if call.inputs == 0:
            self.open[unit].discard(call)
        while self.waiting[unit] and self.zero.left and not self.open[unit]:
            self.zero.is_ready(unit, self.waiting[unit].pop())


class Call:
    """One forward of a module, and how many of its inputs have no gradient yet."""

    def __init__(self, inputs):
        self.inputs = inputs


def needs_gradient(x) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def number_of_backward() -> int:
    """Return the number of the innermost backward that is running; -1 outside all of them."""
    return torch._C._current_graph_task_id()


# ---- Portions of a gradient --------------------------------------------------------------------


class SharesAWeight(nn.Module):
    """Two layers in a row that have the same weight; `way` runs each of them."""

    def __init__(self, way, width=3):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.second.weight, self.way = self.first.weight, way

    def forward(self, x):
        return self.way(self.second, torch.tanh(self.way(self.first, x)))


WAYS = {
    "computed once": lambda module, x: module(x),
    "recomputed, reentrant": partial(checkpoint, use_reentrant=True),
    "recomputed, not reentrant": partial(checkpoint, use_reentrant=False),
}


def portions(way) -> list[float]:
    """Return the norm of the shared weight's gradient each time that autograd calls its hook.

    Norms are relative to that of the gradient after the backward.
    """
    torch.manual_seed(0)
    model, seen = SharesAWeight(WAYS[way]).double(), []
    weight = model.first.weight
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    model(x).square().mean().backward()
    return [(part.norm() / weight.grad.norm()).item() for part in seen]


def main():
    for way in WAYS:
        told = ", ".join(f"{share:.2f}" for share in portions(way))
        print(f"{way}: at each call of its hook, the gradient has this part of its length: {told}")


if __name__ == "__main__":
    main()

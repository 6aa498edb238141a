"""The cases, and the code that runs next to the answer."""

import warnings

import torch
import torch.distributed as dist

from coursekit.kit import RankCase, Rejection, World
from coursekit.kit.collective_exercise import make_noncontiguous, numbers
from coursekit.kit.diagnoses import kind_of
from coursekit.kit.forward_backward import autograd_function
from pedagogy_lib.basics.torch_private import OperatorMode

INPUTS, OUTPUTS = 5, 3  # of a rank; no other dim has these sizes

PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mul"}  # operators that may compute the gradient of A

ONCE = (
    "only the gradient of x is a sum over the ranks, and it is summed once: each rank has its own "
    "part of A and b, and their gradients are complete"
)


def make_case(leading, has_bias=True, frozen="", world=None):
    """Return a case with these dims of x before the inputs; `frozen` names "x", "A" or "b"."""
    what = ("" if has_bias else ", no b") + (f", {frozen} frozen" if frozen else "")
    return RankCase(
        world or World(3), (leading, has_bias, frozen), f", x {[*leading, INPUTS]}{what}"
    )


def is_like_weight(x) -> bool:
    return isinstance(x, torch.Tensor) and {*x.shape[-2:]} == {INPUTS, OUTPUTS}


class Watch(OperatorMode):
    """A record of events: "begin", "A" (its gradient is computed), "wait", and other calls."""

    def __init__(self, group, leading):
        super().__init__()
        self.group, self.shape, self.events, self.given = group, [*leading, INPUTS], [], None
        self.own = False  # whether the watch's own operations run

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **kwargs or {})
        if self.own:
            return out
        if func.namespace in ("c10d", "_c10d_functional"):
            self.events.append("call")
        name = func.overloadpacket.__name__
        of_weight = name == "mul" and any(map(is_like_weight, args))  # A itself is multiplied
        if name in PRODUCTS and is_like_weight(out) and not of_weight:
            self.events.append("A")  # or the gradient from one sample, which autograd sums
        return out

    def begin(self, x, group=None):
        """Begin a sum like begin_sum, but fill x with nan until the wait."""
        self.refuse(x, group)
        self.events.append("begin")
        self.own, self.given = True, x.detach().clone()
        total = self.given.clone()
        request = dist.all_reduce(total, group=self.group, async_op=True)
        x.detach().fill_(torch.nan)
        self.own = False

        def wait():
            self.own = True
            request.wait()
            if "wait" not in self.events:
                x.detach().copy_(total)
            self.events.append("wait")
            self.own = False

        return wait

    def refuse(self, x, group):
        """Raise `Rejection` unless the call is the first, with x's gradient and the right group."""
        if not isinstance(x, torch.Tensor):
            raise Rejection(
                f"begin got {type(x).__name__}", "ctx.begin takes the gradient of x, and the group"
            )
        if "begin" in self.events:
            raise Rejection(f"begin is called once more, with {kind_of(x)}", ONCE)
        if list(x.shape) != self.shape:
            raise Rejection(
                f"begin got {kind_of(x)}, expected the gradient of x, {self.shape}",
                "what has to be summed is the gradient of x: the gradient of the output, times A. "
                "The output's own gradient belongs to this rank's part of A",
            )
        if group is not self.group:
            raise Rejection(
                "begin got another group than forward",
                "forward has kept the group: ctx.begin(…, ctx.group)",
            )


def operands(place, case):
    """Return x, which is the same on all ranks, and a rank's weight, bias and output gradient.

    The output gradient is not contiguous.
    """
    leading, has_bias, frozen = case.args
    draw = lambda k, salt, *shape: numbers(k, shape, torch.float64, salt) / 3  # noqa: E731
    bias = draw(place, 2, OUTPUTS) if has_bias else None
    found = [draw(0, 0, *leading, INPUTS), draw(place, 1, OUTPUTS, INPUTS), bias]
    for name, x in zip("xAb", found):
        if x is not None:
            x.requires_grad_(name not in frozen)
    return found, make_noncontiguous(draw(place, 3, *leading, OUTPUTS))


def multiply(answer, group, case):
    """Return the gradients of a backward, and its events."""
    tensors, slope = operands(dist.get_rank(group), case)
    watch = Watch(group, case.args[0])
    with warnings.catch_warnings():  # x.T of more than 2 dims fails later, or is diagnosed
        warnings.filterwarnings("ignore", "The use of `x.T`")
        y = autograd_function(answer).apply(*tensors, group, watch.begin)
        with watch:
            (y * slope).sum().backward()
    gradients = pop_gradients(tensors)
    nans = [name for name, g in gradients.items() if g is not None and g.isnan().any()]
    found = {"nans": nans} | gradients
    if case.args[2] == "x":  # the answer may or may not sum an unneeded gradient
        return found
    return found | {"events": watch.events, "given": watch.given}


def pop_gradients(tensors) -> dict:
    """Return the gradients and set them to None."""
    found = {name: None if x is None else x.grad for name, x in zip("xAb", tensors)}
    for x in tensors:
        if x is not None:
            x.grad = None
    return found

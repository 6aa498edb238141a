"""Computation that is slowed down on purpose, so that times do not depend on cores."""

import contextlib
import time
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from ..basics.errors import WrongInput
from ..basics.torch_private import OperatorMode
from ..schedules.simulations import pick_seconds
from ..schedules.timelines import LABELS
from .recorder import measure, note_slowdown

PRODUCTS = ("aten.mm.default", "aten.addmm.default")  # their last two arguments are the factors


class SlowProducts(OperatorMode):
    """A context, `with SlowProducts(2e9):`, in which matrix products take as long as at this speed.

    Each product is computed, and the rest of its time is slept, in backwards, too. It is measured
    as "product", without its memory. Everything else keeps its speed.

    flops     floating-point operations per second; a product of (m, k) and (k, n) takes 2 m k n
    measured  False: products are not measured, because measuring takes time, too
    Raises    WrongInput if `flops` is not positive
    """

    def __init__(self, flops, measured=True):
        super().__init__()
        if not flops > 0:
            raise WrongInput(f"SlowProducts takes a positive number of FLOPS, not {flops!r}")
        self.flops, self.measured = flops, measured

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if str(function) not in PRODUCTS:
            return function(*args, **(kwargs or {}))
        a, b = args[-2:]
        with measure("product", memory=False) if self.measured else contextlib.nullcontext():
            end = time.perf_counter() + 2 * a.numel() * b.shape[1] / self.flops
            result = function(*args, **(kwargs or {}))
            time.sleep(max(0.0, end - time.perf_counter()))
        return result


def paced(seconds=None):
    """Return a function that makes, for an action of a pipeline, a context that measures it.

    The context takes the action, (letter, micro-batch, chunk), and measures its block as "forward",
    "backward", …. The pipelines of chapter 08 enter it around each action (`around=`).

    seconds  {kind: seconds}, each a number, or a list with one for each stage of the model: an
             action is computed, and the rest of these seconds is slept. This is emulated computing,
             and pictures say so. Without `seconds`, actions take as long as computing does
    Raises   WrongInput for an unknown kind
    """
    if not set(seconds or {}) <= set(LABELS):
        raise WrongInput(f"paced() takes seconds for the kinds {', '.join(LABELS)}, not {seconds}")

    @contextlib.contextmanager
    def pace_action(action):
        stage = action[2] * dist.get_world_size() + dist.get_rank()
        least = pick_seconds(seconds, action[0], stage) if seconds else 0.0
        note = note_slowdown("computing emulated") if least else contextlib.nullcontext()
        with note, measure(LABELS[action[0]], memory=False, wire=False):
            end = time.perf_counter() + least
            yield
            time.sleep(max(0.0, end - time.perf_counter()))

    return pace_action


class SlowLayer(nn.Module):
    """A layer that returns its input, and takes a given time in its forward and its backward.

    The backward has two parts, like that of a layer with weights: one for the gradient of the input
    and one for the gradients of the weights. An engine that computes these later also sleeps later.

    later  a list that gets the second part, as a function without arguments; None: autograd runs
           it, as the gradient of a weight of one number, whose value is 0
    """

    def __init__(self, forward_seconds, input_seconds, weight_seconds=0.0, later=None):
        super().__init__()
        self.forward_seconds, self.input_seconds = forward_seconds, input_seconds
        self.weight_seconds, self.later = weight_seconds, later
        self.weight = nn.Parameter(torch.zeros(()), requires_grad=later is None)

    def forward(self, x):
        time.sleep(self.forward_seconds)
        x = Sleep.apply(x, self.input_seconds, self.weight_seconds, self.later)
        if self.later is not None:
            return x
        return x + Sleep.apply(self.weight, self.weight_seconds, 0.0, None)


class Sleep(torch.autograd.Function):
    """An identity whose backward sleeps, and adds a second sleep to the list `later`, if given."""

    @staticmethod
    def forward(ctx, x, seconds, more_seconds, later):
        ctx.seconds, ctx.more_seconds, ctx.later = seconds, more_seconds, later
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.seconds)
        if ctx.later is not None:
            ctx.later.append(partial(time.sleep, ctx.more_seconds))
        return gradient, None, None, None

"""The cases, and the code that runs next to the answer."""

import contextlib
import time
from collections import Counter
from dataclasses import dataclass
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib.basics.units import brief

from ..shared.state_snapshot import StateSnapshot

START = 1e6  # first reading of the clock, in seconds

PARTS = ("forward", "backward", "communication")

TIMED = ("model", "loss", "backward of the loss", "backward of the model")


@dataclass(frozen=True)
class Step:
    """A case: the seconds that the parts of a step take, on the clock of one rank.

    behind_the_back  whether calls return before their work is done, as on a GPU
    later            the seconds that the second forward takes more than the first
    """

    model: float
    loss: float
    backward_of_loss: float
    backward_of_model: float
    communication: float
    behind_the_back: bool = False
    later: float = 0.0
    ranks = (0,)
    is_group = False

    @property
    def forward(self) -> float:
        return self.model + self.loss

    @property
    def backward(self) -> float:
        return self.backward_of_loss + self.backward_of_model

    def __str__(self):
        where = ", as on a GPU" if self.behind_the_back else ""
        where += ", as a small difference may come out" if self.communication < 0 else ""
        where += f", the second forward {self.later:g} s more" if self.later else ""
        return (
            f"model {self.model:g} s, loss {self.loss:g} s, backward {self.backward:g} s, "
            f"communication {self.communication:g} s{where}"
        )


def time_one(answer, group, step):
    """Return the answer's three numbers, and how often each part has run."""
    clock = Clock(step.behind_the_back)
    ddp = DistributedDataParallel(SlowModel(clock, step))
    ddp.register_comm_hook((clock, step.communication), communicate)

    def loss_fn(outputs, targets):
        loss = F.cross_entropy(outputs, targets)
        return Spend.apply(loss, clock, "loss", step.loss, step.backward_of_loss)

    batch = torch.ones(3, 4), torch.tensor([0, 1, 1])
    alone = StateSnapshot(ddp, batch, weights=True)
    with clock.instead_of_the_real_one():
        result = answer(ddp, loss_fn, *batch)
    calls = {what: clock.calls[what] for what in TIMED}
    return {"times": numbers_in(result), "calls": calls, "touched": alone.find_changes()}


def numbers_in(result):
    """Return {part: seconds}, or a description of anything but three numbers."""
    try:
        values = list(result)
        if any(isinstance(value, (str, bytes, bool)) for value in values):
            return brief(result)
        return dict(zip(PARTS, map(float, values), strict=True))
    except (TypeError, ValueError, RuntimeError):
        return None if result is None else brief(result)


class Clock:
    """A clock that only work advances or, if behind_the_back, only waiting for the work."""

    def __init__(self, behind_the_back):
        self.seconds, self.pending, self.behind_the_back = START, 0.0, behind_the_back
        self.calls = Counter()

    def spend(self, what, seconds):
        self.calls[what] += 1
        self.pending += seconds
        if not self.behind_the_back:
            self.synchronize()

    def synchronize(self, device=None):
        self.seconds, self.pending = self.seconds + self.pending, 0.0

    @contextlib.contextmanager
    def instead_of_the_real_one(self):
        """Replace the program's time by this clock, and its GPU by one that works, or by none."""
        with contextlib.ExitStack() as stack:
            put = lambda *what: stack.enter_context(mock.patch.object(*what))  # noqa: E731
            for name in ("perf_counter", "time", "monotonic"):
                put(time, name, lambda: self.seconds)
                put(time, f"{name}_ns", lambda: round(self.seconds * 1e9))
            put(torch.cuda, "is_available", lambda: self.behind_the_back)
            put(torch.cuda, "synchronize", self.synchronize)
            yield


class Spend(torch.autograd.Function):
    """An identity that takes some seconds in the forward, and others in the backward."""

    @staticmethod
    def forward(ctx, x, clock, what, there_seconds, back_seconds):
        ctx.how = clock, f"backward of the {what}", back_seconds
        clock.spend(what, there_seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        clock, what, seconds = ctx.how
        clock.spend(what, seconds)
        return gradient, None, None, None, None


class SlowModel(nn.Module):
    def __init__(self, clock, step):
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.how, self.later = (clock, "model", step.model, step.backward_of_model), step.later

    def forward(self, x):
        clock, what, seconds, back_seconds = self.how
        seconds += self.later * (clock.calls[what] > 0)
        return Spend.apply(self.linear(x), clock, what, seconds, back_seconds)


def communicate(how, bucket):
    """Replace an all-reduce; with one bucket, it is called once per backward."""
    clock, seconds = how
    clock.spend("communication", seconds)
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future

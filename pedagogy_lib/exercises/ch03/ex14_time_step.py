"""What the parts of a step take, on a clock that nothing but work moves on."""

import contextlib
import time
from collections import Counter
from dataclasses import dataclass
from itertools import permutations
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ...basics.closeness import close_in_float32
from ...basics.units import brief
from ..kit import Equals, Holds, RankExercise, complains, first_true
from ..kit.values import NO_RETURN
from .left_alone import LeftAlone, leaves_alone

START = 1e6  # what the clock shows at first, in seconds
PARTS = ("forward", "backward", "communication")
TIMED = ("model", "loss", "backward of the loss", "backward of the model")


@dataclass(frozen=True)
class Step:
    """A case: how long the parts of a step take, on the clock of one rank.

    behind_the_back  whether calls return before their work is done, as on a GPU
    later            what the second forward takes more than the first
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


# ---- On the rank ---


def time_one(answer, group, step):
    """The answer's three numbers, and how often each thing has been done."""
    clock = Clock(step.behind_the_back)
    ddp = DistributedDataParallel(SlowModel(clock, step))
    ddp.register_comm_hook((clock, step.communication), communicate)

    def loss_fn(outputs, targets):
        loss = F.cross_entropy(outputs, targets)
        return Spend.apply(loss, clock, "loss", step.loss, step.backward_of_loss)

    batch = torch.ones(3, 4), torch.tensor([0, 1, 1])
    alone = LeftAlone(ddp, batch, weights=True)
    with clock.instead_of_the_real_one():
        result = answer(ddp, loss_fn, *batch)
    calls = {what: clock.calls[what] for what in TIMED}
    return {"times": numbers_in(result), "calls": calls, "touched": alone.changed()}


def numbers_in(result):
    """{part: seconds}; of anything but three numbers what it is, in words."""
    try:
        values = list(result)
        if any(isinstance(value, (str, bytes, bool)) for value in values):
            return brief(result)
        return dict(zip(PARTS, map(float, values), strict=True))
    except (TypeError, ValueError, RuntimeError):
        return None if result is None else brief(result)


class Clock:
    """A clock that only work moves on; behind_the_back, when somebody waits for the work."""

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
        """For the program it is the time, and a GPU that is at work or none."""
        with contextlib.ExitStack() as stack:
            put = lambda *what: stack.enter_context(mock.patch.object(*what))  # noqa: E731
            for name in ("perf_counter", "time", "monotonic"):
                put(time, name, lambda: self.seconds)
                put(time, f"{name}_ns", lambda: round(self.seconds * 1e9))
            put(torch.cuda, "is_available", lambda: self.behind_the_back)
            put(torch.cuda, "synchronize", self.synchronize)
            yield


class Spend(torch.autograd.Function):
    """What it is given, after some seconds; and again on the way back."""

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
    """In place of an all-reduce. With one bucket it is called once for each backward."""
    clock, seconds = how
    clock.spend("communication", seconds)
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


# ---- What is right, and what is not ---


def parts_of(trial, place):
    """What is right. Of two forwards either one may be returned."""
    step, times = trial.case, trial[place].times
    parts = {name: getattr(step, name) for name in PARTS}
    if isinstance(times, dict) and close_in_float32(times["forward"], step.forward + step.later):
        parts["forward"] += step.later
    return parts


def digits_left(times, parts) -> int | None:
    """To how many digits after the point the right times were rounded, if they were."""
    for digits in range(8):
        if all(times[name] == round(parts[name], digits) for name in PARTS):
            return digits
    return None


@complains
def is_timed(trial):
    """Where the times are wrong: whether there is something to time, and a clock is read."""
    times, calls = trial[0].times, trial[0].calls
    if close_in_float32(times, parts_of(trial, 0)):
        return
    digits = digits_left(times, parts_of(trial, 0))
    why = first_true({
        f"this is rounded to {digits} digits: return what the clock gives.": digits is not None,
        "these are readings of the clock; a duration is the difference of two.":
            any(x > START / 2 for x in times.values()),
        "no backward has run.": not calls["backward of the model"],
        "there is one forward for both backwards. DDP decides in the forward whether its backward "
        "communicates: each backward needs a forward of its own.": calls["model"] == 1,
        "read the clock with now(), before and after what you time.":
            not trial.case.behind_the_back and all(abs(x) < 0.1 for x in times.values()),
    })  # fmt: skip
    if why:
        yield f"the seconds are {list(times.values())}", why


def mistakes(trial, place):
    step = trial.case
    f, b, c = parts_of(trial, place).values()
    m, loss = step.model, step.loss
    two_steps = "the two forwards take different times, and the difference is in it: subtract one "
    two_steps += "backward from the other."
    ratio = "this is a ratio; the seconds that communication adds are asked for."
    sign = "the sign is turned round: the backward with communication, minus the one without."
    out = "the loss is part of the forward: read the clock after loss_fn."
    gives = {
        "backward is that of the one which communicates; the computing alone is asked for, which "
        "is the one under no_sync.": (f, b + c, c),
        "the third is the whole backward with communication; subtract the backward without it.":
            (f, b, b + c),
        "the second forward is in it: read the clock again between forward and backward.":
            (f, b, f + c),
        "the third is the whole second step; subtract what the first one took, forward and "
        "backward.": (f, b, f + b + c),
        two_steps: (f, b, c + step.later),
        f"{two_steps} No forward belongs in it.": (f, b, c - step.later),
        sign: (f, b, -c),
        f"{sign} And the computing alone is the backward under no_sync.": (f, b + c, -c),
        f"{ratio} Leave out the division.": (f, b, c / b),
        f"{ratio} Subtract the backward alone.": (f, b, c / (f + b)),
        f"{ratio} Subtract, and do not divide.": (f, b, (b + c) / b),
        f"{ratio} Subtract only.": (f, b, c / (b + c)),
        f"{out} It is in no part here.": (m, b, c),
        f"{out} Here it is in the backward.": (m, loss + b, c),
        f"{out} Here it is in the backward, and in what communication adds.":
            (m, loss + b, loss + c),
        f"{out} Here it is in what communication adds.": (m, b, loss + c),
        "backward begins when the forward is done: read the clock between them, too.":
            (f, f + b, c),
        "backward is timed from the beginning of the forward, and communication with it.":
            (f, f + b, b + c),
        "the forward ends before loss.backward(): read the clock between them.": (f + b, b, c),
        "both forwards are in it; the time of one is asked for.": (2 * f, b, c),
        "both backwards communicate, so they differ by nothing. Run one of them under "
        "ddp.no_sync(), and its forward as well: DDP decides in the forward.": (f, b + c, 0),
        "neither backward communicates: the second forward and backward are run outside of "
        "no_sync.": (f, b, 0),
    }  # fmt: skip
    for unit, factor in {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}.items():
        gives[f"these are {unit}; seconds are asked for."] = (factor * f, factor * b, factor * c)
    asked = ", ".join(PARTS)
    for names in list(permutations(PARTS))[1:]:
        told = f"right, but in another order: these are {', '.join(names)}; asked are {asked}."
        gives[told] = [getattr(step, name) for name in names]
    if c < 0:
        below = "two backwards never take quite the same time, so the difference may come out "
        below += "negative, as here. It is to be returned as it is: "
        gives = {f"{below}abs() turns its sign round.": (f, b, -c),
                 f"{below}0 in its place would hide it.": (f, b, 0)} | gives  # fmt: skip
    if step.behind_the_back:
        gives["on a GPU a call returns before its work is done. Read the clock with now(), which "
              "waits for all that has begun."] = (0, 0, 0)  # fmt: skip
    return {sentence: dict(zip(PARTS, seconds)) for sentence, seconds in gives.items()}


EXERCISE = RankExercise(
    "3.14",
    "time_step",
    lab="simple_ddp",
    cases=[
        Step(2, 0.25, 0.5, 5, 11),
        Step(3, 1.5, 0.25, 4, -0.125),  # as small differences may come out
        Step(1, 0.5, 0.25, 2, 7, behind_the_back=True),
        Step(2, 0.25, 0.5, 1 / 3, 3, later=1),
    ],
    work=time_one,
    facts=[
        Holds("times", lambda times: times is not None, "it returned None", NO_RETURN),
        Holds("times", lambda times: isinstance(times, dict), "it returned {}",
              "return three numbers, in the order forward, backward, communication."),
        is_timed,
        Equals("times", parts_of, mistakes, "the time", same=close_in_float32),
        Holds("calls", lambda calls: all(calls[what] == 2 for what in TIMED),
              lambda calls: ", ".join(f"{what}: {calls[what]} times" for what in TIMED),
              "the times are right, and two forwards and two backwards are enough: one of each "
              "under no_sync, one of each outside of it."),
        leaves_alone,
    ],
    told="told apart",
    errors={
        "context manager": "no_sync is a method: `with ddp.no_sync():`",
        "loss_fn(": "loss_fn takes what the model gives, and then the targets: (outputs, targets).",
        "second time": "a backward frees its graph: each backward needs a forward of its own.",
    },
    warm=True,
    hints=(
        "Two steps: one under `with ddp.no_sync():`, and one outside of it. Each is a forward "
        "and a backward; nothing else is needed.",
        "In each, read now() before what you time and after it. The first step gives forward "
        "and backward, the second one the backward with communication.",
        "Under no_sync belong loss = loss_fn(ddp(inputs), targets) and loss.backward(), both: "
        "DDP decides in the forward whether to communicate.",
        "Communication is the second backward minus the first one.",
    ),
)  # fmt: skip

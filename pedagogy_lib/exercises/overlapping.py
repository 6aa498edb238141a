"""Gradients that are averaged while the backward is running: what the checks of 3.12 and 3.14 try.

The DDP of the lab gets an all-reduce that writes down when it is begun and waited for, and that
hides the sum until then. So what is demanded of the order of events is seen, not timed.
"""

import copy
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn

from ..checking import Exercise, Wrong
from ..errors import HangError
from ..instruments import measure
from .replicas import (
    GROUP,
    IN_A_GROUP,
    SAMPLES,
    STEPS,
    EveryKind,
    World,
    buckets_of_torch,
    close,
    equal_models,
    explain_by,
    gradients_of,
    judge_gradients,
    judge_training,
    loss_of,
    share_of,
    state_of,
    try_in,
)

BUCKET_BYTES = 64  # of EveryKind: exactly two of its parameters, several times


class OutOfTurn(Exception):
    """An all-reduce that ought not to be begun now, or not with this tensor."""

    def __init__(self, what, why):
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self):
        return self.what


# ---- An all-reduce that watches --------------------------------------------------------------


@dataclass
class Step:
    """What happened in one step of one rank.

    events  ("ready", name), ("begin", bucket), ("over", "") at the backward's end, ("wait", bucket)
    got     the gradients when finish() has returned
    local   those of this rank alone
    """

    events: list[tuple] = field(default_factory=list)
    got: dict = field(default_factory=dict)
    local: dict = field(default_factory=dict)

    def begun(self) -> list[int]:
        return [number for event, number in self.events if event == "begin"]


class Watch:
    """An all-reduce for a DDP, and what it has seen of each step."""

    def __init__(self, model, group):
        self.group, self.step = group, Step()
        for name, parameter in model.named_parameters():  # before DDP's own hooks, so noted first
            if parameter.requires_grad:
                note = lambda p, name=name: self.note("ready", name)  # noqa: E731
                parameter.register_post_accumulate_grad_hook(note)

    def follow(self, ddp):
        self.ddp = ddp
        names = {id(p): name for name, p in ddp.model.named_parameters()}
        self.names = [[names[id(p)] for p in bucket] for bucket in ddp.buckets]
        self.lengths = [[p.numel() for p in bucket] for bucket in ddp.buckets]

    def note(self, event, what=""):
        self.step.events.append((event, what))

    def take(self) -> Step:
        """The step that is over, and begin a new one."""
        step, self.step = self.step, Step()
        return step

    def all_reduce(self, x, group=None):
        """As begin_all_reduce; what is in x meanwhile is of no use to anybody."""
        number = len(self.step.begun())
        self.refuse(x, number, group)
        self.note("begin", number)
        summed = x.detach().clone()
        request = dist.all_reduce(summed, group=self.group, async_op=True)
        x.detach().fill_(torch.nan)

        def wait():
            if ("wait", number) not in self.step.events:
                request.wait()
                x.detach().copy_(summed)
                self.note("wait", number)

        return wait

    def refuse(self, x, number, group):
        """Raise OutOfTurn unless x is the flat tensor of the bucket of this number."""
        if not self.ddp.synchronizing:
            raise OutOfTurn("an all-reduce begins while synchronizing is False", IGNORED)
        if self.group is not None and group is not self.group:
            raise OutOfTurn("self.all_reduce was called without the group of this DDP", IN_A_GROUP)
        if number == len(self.lengths):
            what = f"one more all-reduce, though all {number} buckets have begun in this step"
            raise OutOfTurn(what, ONCE_MORE)
        wanted = sum(self.lengths[number])
        if x.numel() != wanted:
            what = f"{x.numel()} elements are sent when it is bucket {number}'s turn: {wanted}"
            raise OutOfTurn(what, self.why_length(x.numel(), number))

    def why_length(self, length, number) -> str:
        if length in self.lengths[number]:
            return (
                "one parameter travels by itself. A bucket travels as one flat tensor, when the "
                "last gradient in it is ready: flatten makes it"
            )
        if length in [sum(of) for of in self.lengths[number + 1 :]]:
            return READY_ORDER
        if length in [sum(of) for of in self.lengths[:number]]:
            return ONCE_MORE
        return "what is sent is to be the flat tensor of one bucket: flatten makes it"


IGNORED = (
    "while synchronizing is False gradients only add up, and nothing is sent: is_ready has nothing "
    "to do then"
)
ONCE_MORE = "a bucket is sent twice in a step: its sums are summed up again"
READY_ORDER = (
    "the buckets begin in the order in which they became ready. On another rank that may be "
    "another order, and a collective is matched by its turn alone: gradients of different buckets "
    "would be added up. The next bucket is len(self.begun), on every rank"
)


# ---- What is tried on a rank -----------------------------------------------------------------


class Branches(nn.Module):
    """A forward takes branches in any order, and may leave some out. Each has its own size."""

    def __init__(self, width=8):
        super().__init__()
        self.weights = nn.ParameterDict()
        for inner, name in enumerate("dcba", 1):  # so that a's bucket comes first
            self.weights[f"{name}_matrix"] = nn.Parameter(torch.zeros(width, inner))
            self.weights[f"{name}_shift"] = nn.Parameter(torch.zeros(inner))
        self.double()

    def forward(self, x, order):
        for name in order:
            matrix = self.weights[f"{name}_matrix"]
            x = x + torch.tanh(x @ matrix + self.weights[f"{name}_shift"]) @ matrix.T
        return x


# A matrix is as large as this, so that each branch has one bucket. Nobody takes d.
BRANCH_BYTES = 8 * 8
ORDERS = ["abc", "cba", "bca", "ac"]  # of each place, which its backward takes from right to left
ORDERS_IN_TURN = ["abc", "cab", "ba"]  # of several backwards in one step; the last without c


def examine_ddp(answer):
    for world, name in [
        (World(2), "training"),
        (World(2), "branches"),
        (World(2), "several backwards"),
        (World(1), "training"),
        (GROUP, "training"),
        (GROUP, "branches"),
        (World(4), "branches"),
        (World(3), "with begin_all_reduce"),
    ]:
        case = f"{world}, {name}"
        found, traffic = try_in(world, overlap_on_rank, answer, name, what=f", {name}",
                                explain=explain_ddp(world, name))  # fmt: skip
        judge_overlap(case, world, found, traffic)
        yield f"{case}: {TOLD[name]}"
        if name == "training" and world.size > 1:
            calls = len(found[0]["names"])
            yield f"cost, {world}: {calls} all-reduces in a step, of {sum_of(found)} elements"


TOLD = {
    "training": f"buckets begin in the backward; after {STEPS} steps the weights of one process",
    "branches": "buckets begin in their order, left over ones in finish(); the mean",
    "several backwards": "nothing is sent before the last one, and then the sums",
    "with begin_all_reduce": f"after {STEPS} steps the weights of one process",
}


def sum_of(found) -> int:
    return sum(found[0]["elements"])


def overlap_on_rank(answer, group, name):
    """The steps of a rank, and, of a training, the weights at the end and those of one process."""
    if name in ("training", "with begin_all_reduce"):
        return train_overlapping(answer, group, watched=name == "training")
    model = equal_models(1, Branches)[0]
    watch = Watch(model, group)
    ddp = made_by(answer, model, BRANCH_BYTES, watch, group)
    place = dist.get_rank(group)
    orders = ORDERS_IN_TURN if name == "several backwards" else [ORDERS[place]]
    x = torch.linspace(-1, 1, 8, dtype=torch.float64) + place
    losses = [lambda net, o=order: (net(x, o) ** 2).mean() for order in orders]
    with measure("answer"):
        steps = [take_step(ddp, watch, losses)]
    return found_of(watch, steps)


def train_overlapping(answer, group, watched):
    mine, alone = equal_models(2)
    watch = Watch(mine, group)
    ddp = made_by(answer, mine, BUCKET_BYTES, watch if watched else None, group)
    watch.follow(ddp)
    n, share = dist.get_world_size(group), share_of(dist.get_rank(group), dist.get_world_size(group))
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.5) for model in (mine, alone)]
    steps = []
    for step in range(STEPS):
        loss_of(alone, step, slice(None), 1 / SAMPLES).backward()
        with measure("answer"):
            steps.append(take_step(ddp, watch, [lambda net: loss_of(net, step, share, n / SAMPLES)]))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    weights = state_of(mine), state_of(alone)
    return found_of(watch, steps) | {"weights": weights, "watched": watched}


def made_by(answer, model, bucket_bytes, watch, group):
    """The learner's DDP; raises OutOfTurn if it is another lab that is wrong."""
    before = [p.detach().clone() for p in model.parameters()]
    parameters = list(model.parameters())
    options = {"all_reduce": watch.all_reduce} if watch else {}
    ddp = answer(model, bucket_bytes=bucket_bytes, group=group, **options)
    numbers = {id(p): number for number, p in enumerate(parameters)}
    got = [[numbers.get(id(p)) for p in bucket] for bucket in ddp.buckets]
    if got != buckets_of_torch(parameters, bucket_bytes):
        raise OutOfTurn("make_buckets gives DDP wrong buckets", 'first: check("3.10")')
    if not all(close(p.detach(), old) for p, old in zip(model.parameters(), before)):
        raise OutOfTurn("start_equal has changed weights that were equal", 'first: check("3.4")')
    if watch:
        watch.follow(ddp)
    return ddp


def take_step(ddp, watch, losses) -> Step:
    """Some backwards, of which only the last one synchronises, and finish().

    losses  take the model
    """
    twin = copy.deepcopy(ddp.model)
    twin.zero_grad()
    for loss in losses:
        loss(twin).backward()
    for loss in losses:
        ddp.synchronizing = loss is losses[-1]
        watch.take()
        loss(ddp).backward()
    watch.note("over")
    ddp.finish()
    step = watch.take()
    step.got, step.local = gradients_of(ddp.model), gradients_of(twin)
    return step


def found_of(watch, steps):
    lengths = [length for bucket in watch.lengths for length in bucket]
    return {"steps": steps, "names": watch.names, "elements": lengths, "watched": True}


# ---- Judging ---------------------------------------------------------------------------------

DDP_ERRORS = {
    "'function' object has no attribute 'wait'": "self.all_reduce returns the function that waits: "
    "call it",
    "'Step' object": "",
    "zip() argument": "finish finds fewer buckets begun than there are: some may be left over, "
    "because a parameter had no part in the loss. Begin these first",
    "list index out of range": "there is no bucket of this number: stop when as many have begun as "
    "there are",
}
LEFT_OVER = (
    "some ranks wait for a bucket that others never begin. A parameter may have had no part in a "
    "rank's loss: then its bucket is not complete, and finish() has to begin it, as zeros. So "
    "all ranks begin all buckets in every step"
)


def explain_ddp(world, name):
    explain = explain_by(DDP_ERRORS, IN_A_GROUP if world.members else "")

    def why(error):
        if isinstance(getattr(error, "exception", None), OutOfTurn):
            return error.exception.why
        if isinstance(error, HangError) and name == "branches" and not world.members:
            return LEFT_OVER
        return explain(error)

    return why


def judge_overlap(case, world, found, traffic):
    for place, (of, (calls, _)) in enumerate(zip(found, traffic)):
        for number, step in enumerate(of["steps"] if of["watched"] else ()):
            where = f"rank {place}, step {number + 1}"
            judge_events(case, where, number, step, of["names"], calls)
        judge_calls(case, place, of, calls)
    for number in range(len(found[0]["steps"])):
        of_places = [of["steps"][number] for of in found]
        got, local = ([getattr(step, which) for step in of_places] for which in ("got", "local"))
        judge_gradients(f"{case}, step {number + 1}", got, local, world)
    if "weights" in found[0]:
        judge_training(case, [of["weights"] for of in found])


def judge_events(case, where, number, step, names, calls):
    """Raise `Wrong` unless each bucket begins when it can, and is waited for after the backward."""
    begun, wanted, count = *begins_of(step, names), len(names)
    if not step.begun():
        what = f"{where}: self.all_reduce has not been called"
        raise Wrong(case, what, why_not_begun(number, calls))
    waits = [what for event, what in step.events if event == "wait"]
    if ("wait", waits[:1]) and waits_early(step):
        what = f"{where}: the backward is held up, waiting for bucket {waits[0]}"
        raise Wrong(case, what, WAITS_EARLY)
    if begun != wanted:
        what = f"{where}: buckets begin after {told(begun)} gradients are ready; "
        raise Wrong(case, f"{what}expected after {told(wanted)}", why_begun_then(begun, wanted))
    if len(step.begun()) < count:
        what = f"{where}: bucket {len(step.begun())} of {count} has never begun"
        raise Wrong(case, what, LEFT_OVER)
    if len(waits) < count:
        missing = next(k for k in range(count) if k not in waits)
        what = f"{where}: nobody has waited for bucket {missing}"
        raise Wrong(case, what, NOT_WAITED)


def begins_of(step, names) -> tuple[list[int], list[int]]:
    """After how many gradients each bucket began in the backward, and after how many it could."""
    ready, begun, wanted = set(), [], []
    for event, what in step.events[: step.events.index(("over", ""))]:
        if event == "begin":
            begun.append(len(ready))
        if event == "ready":
            ready.add(what)
            while len(wanted) < len(names) and set(names[len(wanted)]) <= ready:
                wanted.append(len(ready))
    return begun, wanted


def waits_early(step) -> bool:
    return any(event == "wait" for event, _ in step.events[: step.events.index(("over", ""))])


def told(begun) -> str:
    return ", ".join(map(str, begun)) or "none"


def why_not_begun(number, calls) -> str:
    if number:
        return (
            "one step is right, and in the next one nothing begins: for DDP all buckets have begun "
            "already, in the step before. finish() ends with self.start_over()"
        )
    if any(call.name == "all_reduce" for call in calls):
        return (
            "dist.all_reduce is called, and the argument `all_reduce` of DDP is of no use: begin "
            "with self.all_reduce(flat, self.group), which returns a function that waits"
        )
    return (
        "nothing is ever begun: is_ready strikes a parameter off self.missing, and begins what is "
        "complete; finish() begins the others"
    )


WAITS_EARLY = (
    "the numbers may be right, but nothing overlaps: is_ready begins a bucket and waits for it, "
    "and the backward stands still meanwhile. Keep the function that waits; finish() calls it"
)
NOT_WAITED = (
    "self.all_reduce returns a function. Until that has been called and has returned, nobody may "
    "count on what is in the flat tensor: finish() calls it for each bucket"
)


def why_begun_then(begun, wanted) -> str:
    if not begun:
        return (
            "all buckets begin after the backward: nothing overlaps. Whenever a gradient is ready, "
            "is_ready looks whether the next bucket is complete, and begins it"
        )
    pairs = list(zip(begun, wanted))
    if len(begun) > len(wanted) or any(early < right for early, right in pairs):
        return (
            "a bucket begins before its last gradient is ready: what is sent lacks something. It "
            "is complete when nothing is left in its set in self.missing. Only gradients count "
            "that became ready while synchronizing was True"
        )
    return (
        "a bucket that is complete is kept back. When one begins, those after it may have been "
        "complete for long, and have only waited for their turn: go on as long as the next one is "
        "complete (while, not if)"
    )


def judge_calls(case, place, of, calls):
    """As many all-reduces as there are buckets in each step, of all gradients once."""
    count, steps = len(of["names"]), len(of["steps"])
    others = {call.name for call in calls} - {"all_reduce"}
    if others or len(calls) != count * steps:
        kinds = f"{len(calls)} calls ({', '.join(sorted({call.name for call in calls}))})"
        what = f"rank {place} makes {kinds} in {steps} steps of {count} buckets"
        raise Wrong(case, what, "one all-reduce for each bucket is enough, and it is self.all_reduce")


# ---- 3.14: no_sync ---------------------------------------------------------------------------

UNDER, AFTER = ["abc", "cab", "b"], "ba"  # c's gradient comes from those under no_sync alone


def examine_no_sync(answer):
    yield from examine_switch(answer)
    for world in (World(2), World(3)):
        found, _ = try_in(world, try_no_sync, answer, explain=explain_no_sync)
        judge_no_sync(world, found)
        yield f"{world}: {len(UNDER)} backwards under it send nothing; the next one sends the sums"


# What is seen at each point: (after what, what `synchronizing` has to be, why it is not).
INSIDE = "inside"
SEEN = [
    ("under it", False, "synchronizing is what decides whether gradients are sent: under no_sync "
     "it has to be False"),
    ("after it", True, "it stays switched off: after the `with`, synchronizing has to be what it "
     "was before"),
    ("under a second one", False, "synchronizing has to be False under each no_sync"),
    ("after the inner one of two", False, "the inner no_sync switches it on again, while the outer "
     "one is not over. It has to put back the value that was there before it, which may be False"),
    ("after both", True, "after the outer one, synchronizing has to be what it was before: True"),
    ("after an error under it", True, "an error under it leaves gradients switched off for good: "
     "what comes after `yield` is not run then. try … finally is"),
    ("after one that began with False", False, "synchronizing was False before: it has to be so "
     "again"),
]  # fmt: skip


class Pretended(nn.Module):
    """What no_sync is given where nothing is to be sent: as a DDP, and it notes what is done."""

    def __init__(self):
        super().__init__()
        self.model, self.synchronizing, self.done = nn.Linear(1, 1), True, []
        self.buckets = [list(self.model.parameters())]

    def finish(self):
        self.done.append("finish()")

    def start_over(self):
        self.done.append("start_over()")

    def begin_next(self):
        self.done.append("begin_next()")


def examine_switch(answer):
    """What becomes of `synchronizing`; no ranks are needed for that."""
    ddp, seen = Pretended(), []
    with opened(answer, ddp):
        seen.append(ddp.synchronizing)
    seen.append(ddp.synchronizing)
    with opened(answer, ddp):
        with opened(answer, ddp):
            seen.append(ddp.synchronizing)
        seen.append(ddp.synchronizing)
    seen.append(ddp.synchronizing)
    seen.append(after_an_error(answer, ddp))
    ddp.synchronizing = False
    with opened(answer, ddp):
        pass
    seen.append(ddp.synchronizing)
    judge_switch(seen, ddp.done)
    yield f"synchronizing is right {', '.join(where for where, _, _ in SEEN)}"

"""Gradients that are averaged while the backward is running: what the checks of 3.12 and 3.14 try.

The DDP of the lab gets an all-reduce that writes down when it is begun and waited for, and that
hides the sum until then. So what is demanded of the order of events is seen, not timed.
"""

import contextlib
import copy
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn

from ...basics.closeness import close
from ...basics.errors import HangError
from ...course.checking import Wrong
from ..kit.models import SAMPLES, STEPS, equal_models, loss_of, share_of, state_of
from ..kit.on_ranks import IN_A_GROUP, answering
from ..kit.refused import Refused
from ..kit.worlds import GROUP, At, World, explain_by, try_at
from .averaging import descend, gradients_of, judge_gradients, judge_training, totals_of
from .ex10_make_buckets import buckets_of_torch

BUCKET_BYTES = 64  # of EveryKind: several small parameters fill a bucket exactly


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
        """Raise `Refused` unless x is the flat tensor of the bucket of this number."""
        if not self.ddp.synchronizing:
            raise Refused("an all-reduce begins while synchronizing is False", IGNORED)
        if self.group is not None and group is not self.group:
            raise Refused("self.all_reduce was called without the group of this DDP", IN_A_GROUP)
        if number == len(self.lengths):
            what = f"one more all-reduce, though all {number} buckets have begun in this step"
            raise Refused(what, ONCE_MORE)
        wanted = sum(self.lengths[number])
        if x.numel() != wanted:
            what = f"{x.numel()} elements are sent when it is bucket {number}'s turn: {wanted}"
            raise Refused(what, self.why_length(x.numel(), number))

    def why_length(self, length, number) -> str:
        if any(length in of for of in self.lengths):
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
        for inner, name in enumerate("edcba", 1):  # so that a's bucket comes first
            self.weights[f"{name}_matrix"] = nn.Parameter(torch.zeros(width, inner))
            self.weights[f"{name}_shift"] = nn.Parameter(torch.zeros(inner))
        self.double()

    def forward(self, x, order):
        for name in order:
            matrix = self.weights[f"{name}_matrix"]
            x = x + torch.tanh(x @ matrix + self.weights[f"{name}_shift"]) @ matrix.T
        return x


BRANCH_BYTES = 8 * 8  # the smallest matrix: each branch has one bucket
# Of each place; its backward takes them from right to left. The second takes all of them, in the
# order of the buckets; the others lack some, and their buckets become ready in another order.
ORDERS = ["abd", "edcba", "bdca", "dac"]
ORDERS_IN_TURN = ["abc", "cab", "ba"]  # of several backwards in one step; the last without c


def examine_ddp(answer):
    places = [
        (World(2), "training"),
        (World(2), "branches"),
        (GROUP, "several backwards"),
        (World(1), "training"),
        (World(4), "branches"),
        (World(3), "with begin_all_reduce"),
    ]
    cases = [At(world, (name,), f", {name}") for world, name in places]
    for at, found, traffic in try_at(cases, overlap_on_rank, answer, explain_ddp):
        case, world, (name,) = str(at), at.world, at.args
        judge_overlap(case, world, found, traffic)
        yield f"{case}: {TOLD[name]}"
        if name == "training" and world.size > 1:
            calls, elements = len(found[0]["names"]), sum(found[0]["elements"])
            yield f"cost, {world}: {calls} all-reduces in a step, {8 * elements} bytes in all"


TOLD = {
    "training": f"buckets begin in the backward; after {STEPS} steps the weights of one process",
    "branches": "buckets begin in their order, left over ones in finish(); the mean",
    "several backwards": "nothing is sent before the last one, and then the sums",
    "with begin_all_reduce": f"after {STEPS} steps the weights of one process",
}


def overlap_on_rank(answer, group, name):
    """The steps of a rank, and, of a training, the weights at the end and those of one process."""
    if name in ("training", "with begin_all_reduce"):
        return train_overlapping(answer, group, watched=name == "training")
    model = equal_models(1, Branches)[0]
    watch = Watch(model, group)
    ddp = made_by(answer, model, BRANCH_BYTES, group, watch, {"all_reduce": watch.all_reduce})
    place = dist.get_rank(group)
    orders = ORDERS_IN_TURN if name == "several backwards" else [ORDERS[place]]
    x = torch.linspace(-1, 1, 8, dtype=torch.float64) + place
    losses = [lambda net, o=order: (net(x, o) ** 2).mean() for order in orders]
    with answering():
        steps = [take_step(ddp, watch, losses)]
    return found_of(watch, steps)


def train_overlapping(answer, group, watched):
    mine, alone = equal_models(2)
    watch = Watch(mine, group)
    options = {"all_reduce": watch.all_reduce} if watched else {}
    ddp = made_by(answer, mine, BUCKET_BYTES, group, watch, options)
    n = dist.get_world_size(group)
    share = share_of(dist.get_rank(group), n)
    steps = []
    for step in range(STEPS):
        loss_of(alone, step, slice(None), 1 / SAMPLES).backward()
        loss = lambda net, step=step: loss_of(net, step, share, n / SAMPLES)  # noqa: E731
        with answering() if step == 0 else contextlib.nullcontext():
            steps.append(take_step(ddp, watch, [loss]))
        for model in (mine, alone):
            descend(model)
    weights = state_of(mine), state_of(alone)
    return found_of(watch, steps) | {"weights": weights, "watched": watched}


def made_by(answer, model, bucket_bytes, group, watch, options):
    """The learner's DDP; raises `Refused` if it is another lab that is wrong."""
    parameters = list(model.parameters())
    before = [p.detach().clone() for p in parameters]
    ddp = answer(model, bucket_bytes=bucket_bytes, group=group, **options)
    numbers = {id(p): number for number, p in enumerate(parameters)}
    got = [[numbers.get(id(p)) for p in bucket] for bucket in ddp.buckets]
    if got != buckets_of_torch(parameters, bucket_bytes):
        raise Refused("make_buckets gives DDP wrong buckets", 'first: check("3.10")')
    if not all(close(p.detach(), old) for p, old in zip(model.parameters(), before)):
        raise Refused("start_equal has changed weights that were equal", 'first: check("3.4")')
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
    "zip() argument": "finish finds fewer buckets begun than there are: some may be left over, "
    "because a parameter had no part in the loss. Begin these first",
    "list index out of range": "there is no bucket of this number: stop when as many have begun as "
    "there are",
}
LEFT_OVER = (
    "a parameter may have had no part in the loss, perhaps on one rank alone: then its bucket is "
    "left over when the backward ends. finish() has to begin it, with zeros for what is missing, "
    "so that all ranks begin all buckets in every step"
)


def explain_ddp(at):
    explain = explain_by(DDP_ERRORS, IN_A_GROUP if at.is_group else "")

    def why(error):
        if isinstance(getattr(error, "exception", None), Refused):
            return error.exception.why
        if isinstance(error, HangError) and at.args == ("branches",) and not at.is_group:
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
    if waits_early(step):
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
    """As many all-reduces as there are buckets, in the first step."""
    count, kinds = len(of["names"]), sorted({call.name for call in calls})
    if kinds != ["all_reduce"] or len(calls) != count:
        what = f"rank {place} makes {len(calls)} calls in a step, for {count} buckets: "
        raise Wrong(case, what + ", ".join(kinds), JUST_THESE)


JUST_THESE = "one all-reduce for each bucket is enough, and it is self.all_reduce"


# ---- 3.14: no_sync ---------------------------------------------------------------------------

UNDER, AFTER = ["abc", "cab", "cb"], "ba"  # c's gradient comes from those under no_sync alone
NO_SYNC_ERRORS = {
    "'NoneType' object is not an iterator": "what is to run under it runs at a `yield`, and there "
    "is none",
    "'no_sync'": "DistributedDataParallel has a method of this name. Ours has `synchronizing`, and "
    "this function is to make use of it",
    "context manager": "`with` needs a context manager: a function with `yield` becomes one by "
    "@contextlib.contextmanager",
    "__enter__": "`with` needs a context manager: a function with `yield` becomes one by "
    "@contextlib.contextmanager",
    "generator didn't stop": "there is a second `yield`: a context manager has exactly one",
    "generator didn't yield": "it ends without having come to its `yield`",
}
SWALLOWED = (
    "an error under it is lost: whoever wrote `with no_sync(ddp):` never hears of it. With try … "
    "finally it goes on after the cleaning up; with except, only if it is raised again"
)
SWITCH = {  # when: what `synchronizing` has to be, and why it may not be
    "under it": (False, "synchronizing decides whether gradients are sent: under no_sync it has to "
                 "be False"),
    "after it": (True, "after the `with`, synchronizing has to be what it was before: True"),
    "under a second one": (False, "synchronizing has to be False under each of them"),
    "between the ends of two": (False, "the end of the inner no_sync switches on again, and the "
                                "outer one is not over yet. Put back the value that was there "
                                "before: it may have been False"),
    "after both": (True, "after the outer one, synchronizing has to be what it was before: True"),
    "after an error": (True, "an error under it leaves gradients switched off for good: what "
                       "follows the `yield` is not run then. What is in finally is run"),
    "after one that began with False": (False, "synchronizing was False before. Put back the value "
                                        "that was there before, whatever it was"),
}  # fmt: skip


def examine_no_sync(answer):
    cases = [At(World(2)), At(World(3))]
    for at, found, traffic in try_at(cases, no_sync_on_rank, answer, lambda _: explain_no_sync):
        world = at.world
        for place, of in enumerate(found):
            judge_switch(f"{world}, rank {place}", of)
        yield f"{world}: synchronizing is right {', '.join(SWITCH)}"
        judge_sums(world, found, traffic)
        yield f"{world}: {len(UNDER)} backwards under it send nothing, the next one sends the sums"


def explain_no_sync(error):
    if isinstance(getattr(error, "exception", None), Refused):
        return error.exception.why
    return explain_by(NO_SYNC_ERRORS)(error)


def no_sync_on_rank(answer, group):
    """What becomes of `synchronizing`; then what is sent, and gradients, of backwards under it."""
    model, begun = equal_models(1, Branches)[0], []

    def all_reduce(x, group=None):
        begun.append(x.numel())
        return dist.all_reduce(x, group=group, async_op=True).wait

    ddp = answer.lab.DDP(model, bucket_bytes=BRANCH_BYTES, all_reduce=all_reduce)
    need_ddp(ddp)
    seen, called = switched(answer, ddp)
    model.zero_grad()
    begun.clear()
    with answering():
        for order in UNDER:
            with answer(ddp):
                loss_along(ddp, order).backward()
        under = len(begun)
        loss_along(ddp, AFTER).backward()
        ddp.finish()
    found = {"seen": seen, "called": called, "buckets": len(ddp.buckets), "under": under}
    return found | {
        "got": gradients_of(model),
        "local": local_gradients(model, [*UNDER, AFTER]),
        "cleared": [local_gradients(model, late) for late in ([AFTER], [UNDER[-1], AFTER])],
    }


def need_ddp(ddp):
    """Raise `Refused` unless DDP itself averages a backward without any no_sync."""
    loss_along(ddp, AFTER).backward()
    ddp.finish()
    got = gradients_of(ddp.model)
    for name, gradient in local_gradients(ddp.model, [AFTER]).items():
        if gradient is not None:
            dist.all_reduce(gradient)
            if not close(got[name], gradient / dist.get_world_size()):
                raise Refused("DDP does not average, without any no_sync", 'first: check("3.12")')


def loss_along(model, order):
    x = torch.linspace(-1, 1, 8, dtype=torch.float64) + dist.get_rank()
    return (model(x, order) ** 2).mean()


def local_gradients(model, orders):
    """The sums of some backwards of this rank alone."""
    twin = copy.deepcopy(model)
    twin.zero_grad()
    for order in orders:
        loss_along(twin, order).backward()
    return gradients_of(twin)


def switched(answer, ddp):
    """{when: what synchronizing is}, and which methods no_sync has called."""
    seen, called = {}, []
    ddp.finish = lambda: called.append("finish")
    see = lambda when: seen.setdefault(when, ddp.synchronizing)  # noqa: E731
    with answer(ddp):
        see("under it")
    see("after it")
    ddp.synchronizing = True
    with answer(ddp):
        with answer(ddp):
            see("under a second one")
        see("between the ends of two")
    see("after both")
    ddp.synchronizing = True
    raise_under(answer, ddp)
    see("after an error")
    ddp.synchronizing = False
    with answer(ddp):
        pass
    see("after one that began with False")
    ddp.synchronizing = True
    del ddp.finish
    return seen, called


def raise_under(answer, ddp):
    try:
        with answer(ddp):
            raise KeyError("an error under no_sync")
    except KeyError:
        return
    raise Refused("an error was raised under it, and has not come out", SWALLOWED)


def judge_switch(case, of):
    if of["called"]:
        what = "it calls ddp.finish()"
        raise Wrong(case, what, FINISHED)
    for when, (wanted, why) in SWITCH.items():
        if of["seen"][when] is not wanted:
            what = f"{when}, ddp.synchronizing is {of['seen'][when]}, expected {wanted}"
            raise Wrong(case, what, why)


FINISHED = (
    "finish() sends, and averages what has added up so far: under no_sync nothing is to be sent. "
    "Whoever trains calls it, after the backward that is not under no_sync"
)


def judge_sums(world, found, traffic):
    for place, (of, (calls, _)) in enumerate(zip(found, traffic)):
        if of["under"]:
            what = f"rank {place}: {of['under']} all-reduces begin under it"
            raise Wrong(str(world), what, 'synchronizing is False then: check("3.12") comes first')
        if len(calls) != of["buckets"]:
            what = f"rank {place}: {len(calls)} calls in all, for {of['buckets']} buckets"
            raise Wrong(str(world), what, "all backwards together send each bucket once")
    got, local = ([of[which] for of in found] for which in ("got", "local"))
    if any(is_mean(got, late) for late in zip(*(of["cleared"] for of in found))):
        what = "the gradients are those of the last backward, or of the last two, alone"
        raise Wrong(str(world), what, CLEARED)
    judge_gradients(str(world), got, local, world)


CLEARED = (
    "what has added up under no_sync is lost: gradients are set back in it. They are to add up "
    "until the optimizer's step"
)


def is_mean(got, local) -> bool:
    means = {name: total / len(local) for name, total in totals_of(local).items()}
    return all(close(of[name], mean) for of in got for name, mean in means.items())

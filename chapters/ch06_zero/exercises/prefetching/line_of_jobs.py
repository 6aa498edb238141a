"""A replacement for the thread of a `Prefetching`, and a watch on its use, for its check."""

from collections import deque
from dataclasses import dataclass
from functools import partial

from coursekit.kit import Rejection
from pedagogy_lib.basics.torch_private import OperatorMode, version_of
from pedagogy_lib.measuring.bytes_of_calls import RULES, calls_of

GATHER, REDUCE = "gather", "reduce"


def is_whole(unit) -> bool:
    return unit.flat.untyped_storage().nbytes() > 0


class Line(OperatorMode):
    """A queue of jobs; each is done, in order, in the thread that waits for it or for a later one.

    It catches an answer that uses a unit which has not arrived, however fast a thread would be.

    done   number of jobs that have been done
    kinds  what each job has done: (GATHER or REDUCE, unit), or None if nothing, or nothing yet
    sent   bytes sent by jobs
    """

    def __init__(self, units):
        super().__init__()
        self.units, self.jobs, self.kinds = list(units), deque(), []
        self.done, self.sent, self.is_working = 0, 0, False

    @property
    def begun(self) -> int:
        return len(self.kinds)

    def begin(self, job):
        if not callable(job):
            raise Rejection(
                f"begin() gets a {type(job).__name__}",
                "a job is a function without arguments, which the line calls when it is its turn: "
                "with brackets behind it, it is done at once, and what is passed on is its result",
            )
        self.jobs.append(job)
        self.kinds.append(None)
        return partial(self.wait, self.begun)

    def wait(self, number):
        while self.done < number:
            before = [(is_whole(unit), *state_of(unit)) for unit in self.units]
            self.is_working = True
            self.jobs.popleft()()
            self.is_working = False
            self.kinds[self.done] = self.what_has_changed(before)
            self.done += 1

    def what_has_changed(self, before):
        for unit, (was_whole, gradient, version) in zip(self.units, before):
            if is_whole(unit) and not was_whole:
                return GATHER, unit
            now = state_of(unit)
            if now[0] is not gradient or now[1] != version:
                return REDUCE, unit
        return None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in RULES:
            if not self.is_working:
                raise Rejection(
                    "messages go out beside the line",
                    "two threads send at the same time then, and their messages get mixed up. "
                    "self.begin(job) puts a job into the line",
                )
            self.sent += sum(call.sent_bytes for call in calls_of(func, args))
        return func(*args, **(kwargs or {}))


def state_of(unit):
    gradient = unit.shard.grad
    return gradient, None if gradient is None else version_of(gradient)


@dataclass
class Need:
    """A call of need() for a unit.

    ahead   the units that come next
    before  numbers of jobs done and begun before the call
    after   the same numbers after the call
    there   the units in `ahead` that are whole after the call
    """

    unit: object
    ahead: list
    before: tuple[int, int]
    after: tuple[int, int]
    there: list


class Uses:
    """A watch on `need`, `reduce` and `end_backward` of an engine; a misuse raises `Rejection`."""

    def __init__(self, engine, line, depth, names):
        self.line, self.depth, self.names = line, depth, names
        self.last, self.now, self.needs, self.reductions = [], [], [], []
        for name in ("need", "reduce", "end_backward"):
            setattr(engine, name, partial(getattr(self, name), getattr(engine, name)))

    def jobs(self) -> tuple[int, int]:
        return self.line.done, self.line.begun

    def need(self, original, unit):
        self.now.append(unit)
        k = len(self.now)
        ahead = self.last[k : k + self.depth] if self.last[:k] == self.now else []
        before = self.jobs()
        original(unit)
        if not is_whole(unit):
            raise Rejection(f"need({self.names[unit]}) returns, and the unit is not there", NOT_YET)
        there = [other for other in ahead if is_whole(other)]
        self.needs.append(Need(unit, ahead, before, self.jobs(), there))

    def reduce(self, original, unit):
        begun = self.line.begun
        original(unit)
        now_done, now_begun = self.jobs()
        if now_begun == begun:
            raise Rejection(
                f"reduce({self.names[unit]}) puts nothing into the line",
                "the gradients of the unit are to be reduced: reduce_gradients(taken), as a job",
            )
        if now_done > begun:
            raise Rejection(
                f"reduce({self.names[unit]}) waits until its gradients are reduced",
                "the numbers are right, and the next unit's backward has to wait meanwhile. Who "
                "has to wait for a reduction, and when at the latest?",
            )
        self.reductions.append(now_begun)

    def end_backward(self, original):
        original()
        late = [number for number in self.reductions if number > self.line.done]
        if late:
            raise Rejection(
                f"the backward is over, and {len(late)} of {len(self.reductions)} reductions are "
                "not done",
                "the optimizer's step comes next: with a quick thread it may go well, and with a "
                "slow one the step misses gradients. end_backward() waits for each of them",
            )
        self.reductions = []

    def end_step(self):
        """Judge the calls of need() of a step, now that all jobs are done."""
        for need in self.needs:
            self.look_at(need)
        self.last, self.now, self.needs = self.now, [], []

    def look_at(self, need):
        done_before, begun_before = need.before
        done, begun = need.after
        name, kinds = self.names[need.unit], self.line.kinds
        new = [(number, kinds[number - 1]) for number in range(begun_before + 1, begun + 1)]
        for place, (number, kind) in enumerate(new):
            if kind is None:
                raise Rejection(
                    f"need({name}) puts a gather into the line that changes nothing",
                    "the unit is there already, or on its way: self.coming says so, and it is not "
                    "gathered again",
                )
            unit = kind[1]
            if unit not in (need.unit, *need.ahead):
                raise Rejection(
                    f"need({name}) gathers {self.names[unit]} as well",
                    "only the units of self.ahead() are gathered ahead: each one more is memory "
                    "that is not free",
                )
            if unit is not need.unit and number <= done:
                if (GATHER, need.unit) in [kind for _, kind in new[place:]]:
                    raise Rejection(
                        f"need({name}) puts {self.names[unit]} into the line before {name}",
                        "the numbers are right, but this unit has to wait for the next one's "
                        "gather: first in line, first served",
                    )
                raise Rejection(
                    f"need({name}) waits for the gather of {self.names[unit]} as well",
                    "the numbers are right, but nothing is hidden: the units ahead are only put "
                    "into the line. need() waits for its own unit, and for no other",
                )
        own = max((k for k, kind in enumerate(kinds[:begun], 1) if kind == (GATHER, need.unit)),
                  default=0)  # fmt: skip
        if any(kind and kind[0] == REDUCE for kind in kinds[max(done_before, own) : done]):
            raise Rejection(
                f"need({name}) waits for reductions that stand behind its gather",
                "the numbers are right, but the computing waits for gradients that nobody needs "
                "before the step: end_backward() waits for them",
            )
        on_their_way = [kind[1] for kind in kinds[done:begun] if kind and kind[0] == GATHER]
        for unit in need.ahead:
            if unit not in (need.unit, *need.there, *on_their_way):
                raise Rejection(
                    f"while {name} computes, {self.names[unit]} is not on its way, with depth "
                    f"{self.depth}",
                    "the numbers are right, but too few units are gathered ahead: need() puts all "
                    "units of self.ahead() into the line",
                )


NOT_YET = (
    "begin() puts a job into the line, and returns at once. What it returns waits for the end of "
    "the job: call that, for this unit, whether it was put into the line now or earlier"
)

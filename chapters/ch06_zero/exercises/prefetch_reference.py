"""A stage 3 that fetches units ahead, in a thread or in its place: for the check of zero3."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from coursekit.kit import Rejection
from pedagogy_lib.basics.torch_private import OperatorMode
from pedagogy_lib.measuring.bytes_of_calls import RULES, calls_of


def make_prefetching_class(kind, lab):
    """A class like Zero3, `kind`, whose next unit is gathered in a thread while one computes.

    What comes next is known from the step before. Nothing is reduced while the thread gathers.

    lab  with its `gather` and `dispose`
    """

    class FetchesAhead(kind):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            thread = ThreadPoolExecutor(1)
            self.begin = lambda job: thread.submit(job).result
            self.coming, self.before, self.now = {}, [], []

        def need(self, unit):
            self.now.append(unit)
            following = self.before[len(self.now) : len(self.now) + 1]
            for each in [unit, *(following if self.before[: len(self.now)] == self.now else ())]:
                if each not in self.coming:
                    self.coming[each] = self.begin(partial(lab.gather, each))
            self.coming[unit]()

        def drop(self, unit):
            if unit in self.coming:
                self.coming.pop(unit)()  # it may still be on its way
                lab.dispose(unit)

        def reduce(self, unit):
            for wait in self.coming.values():
                wait()
            super().reduce(unit)

        def update(self):
            for unit in list(self.coming):
                self.drop(unit)  # fetched in vain: soon out of date
            self.before, self.now = self.now, []
            super().update()

    return FetchesAhead


class Line(OperatorMode):
    """Stands in for the thread of an engine: a job is done when somebody waits for it, in turn.

    So an answer that uses what is still on its way is found out, however fast a thread would be.
    """

    def __init__(self, zero):
        super().__init__()
        self.jobs, self.done, self.is_working, self.longest = deque(), 0, False, 0
        self.sent = 0  # bytes, in forward and backward of this step
        zero.begin = self.begin

    def begin(self, job):
        self.jobs.append(job)
        self.longest = max(self.longest, len(self.jobs))
        return partial(self.wait, self.done + len(self.jobs))

    def wait(self, number):
        while self.done < number:
            self.is_working = True
            self.jobs.popleft()()
            self.is_working, self.done = False, self.done + 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in RULES:
            if self.jobs and not self.is_working:
                raise Rejection(
                    "messages go out while the thread fetches a unit",
                    "as it is, it is right. Where a thread gathers units ahead, two threads send "
                    "at the same time, and their messages are mixed up. need(), and reduce() when "
                    "autograd calls it, wait for the thread; gather() and reduce_gradients() at "
                    "another time do not",
                )
            self.sent += sum(call.sent_bytes for call in calls_of(func, args))
        return func(*args, **(kwargs or {}))

    def need_good_use(self, most):
        """After a step: raise `Rejection` unless all jobs have ended, and it was worth it.

        most  bytes to be sent in a step that is as the one before, or None
        """
        if self.jobs:
            raise Rejection(
                "a job was begun, and nobody has waited for its end",
                "a unit was fetched, and neither need() nor drop() has waited for it",
            )
        if most and self.longest < 2:
            raise Rejection(
                "in the last step no unit is fetched ahead",
                "the numbers are right, but nothing can be fetched ahead: need() looks what comes "
                "next, and gathers it in a thread. gather() alone does not",
            )
        if most and self.sent > most:
            raise Rejection(
                f"the last step sends {self.sent:,} bytes, expected {most:,.0f}",
                "as it is, it is right. Where a thread gathers units ahead, units travel that are "
                "there already, or on their way: what need() has fetched ahead is dropped before "
                "it is used, and fetched again",
            )
        self.sent = 0

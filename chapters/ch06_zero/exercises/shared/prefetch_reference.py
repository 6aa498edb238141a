"""A ZeRO stage 3 that prefetches units, in a thread or without one, for the check of Zero3."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from coursekit.kit import Rejection
from pedagogy_lib.basics.torch_private import OperatorMode
from pedagogy_lib.measuring.bytes_of_calls import RULES, calls_of


def make_prefetching_class(kind, lab):
    """Return a subclass of `kind`, a class like Zero3, that gathers the next unit in a thread.

    It knows the next unit from the step before. No unit is reduced while the thread gathers.

    lab  module with `gather` and `dispose`
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
                self.coming.pop(unit)()  # its gather may still be running
                lab.dispose(unit)

        def reduce(self, unit):
            for wait in self.coming.values():
                wait()
            super().reduce(unit)

        def update(self):
            for unit in list(self.coming):
                self.drop(unit)  # prefetched in vain, because the update makes it outdated
            self.before, self.now = self.now, []
            super().update()

    return FetchesAhead


class Line(OperatorMode):
    """A replacement for an engine's thread: jobs are done in order, once a caller waits for them.

    It catches an answer that uses a unit which has not arrived, however fast a thread would be.
    """

    def __init__(self, zero):
        super().__init__()
        self.jobs, self.done, self.is_working, self.longest = deque(), 0, False, 0
        self.sent = 0  # bytes sent in the forwards and backwards of this step
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
        """Raise `Rejection` unless, after a step, all jobs have ended and prefetching was useful.

        most  bytes that may be sent in a step with the same units as the one before, or None
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

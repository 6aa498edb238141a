"""What takes the place of the thread in which units are fetched ahead: for the check of 6.12."""

from collections import deque
from functools import partial

from ...basics.torch_private import OperatorMode
from ...measuring.bytes_of_calls import RULES, calls_of
from ..kit.refused import Refused


class Line(OperatorMode):
    """Stands in for the thread of a Zero3: a job is done when somebody waits for it, in turn.

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
                raise Refused(
                    "messages go out while the thread fetches a unit",
                    "without prefetch it is right; with it two threads send at the same time, and "
                    "their messages are mixed up. self.begin(job) puts a job in the line of those "
                    "in the thread, and returns what waits for its end",
                )
            self.sent += sum(call.sent_bytes for call in calls_of(func, args))
        return func(*args, **(kwargs or {}))

    def need_good_use(self, most):
        """After a step: raise `Refused` unless all jobs have ended, and it was worth it.

        most  bytes to be sent in a step that is as the one before, or None
        """
        if self.jobs:
            raise Refused(
                "a job was begun, and nobody has waited for its end",
                "self.begin(job) returns what waits for the job's end: call it, or the step may "
                "come before the gradients are reduced",
            )
        if most and self.longest < 2:
            raise Refused(
                "in the last step no unit is fetched ahead",
                "the numbers are right, but prefetch does nothing: need() looks what comes next, "
                "and fetches it meanwhile. gather() alone does not",
            )
        if most and self.sent > most:
            raise Refused(
                f"the last step sends {self.sent:,} bytes, expected {most:,.0f}",
                "without prefetch it is right; with it units travel that are there already, or on "
                "their way: what need() has fetched ahead is dropped before it is used, and "
                "fetched again",
            )
        self.sent = 0

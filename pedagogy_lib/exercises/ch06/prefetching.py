"""What takes the place of the thread in which units are fetched ahead: for the check of 6.11."""

from collections import deque
from functools import partial

from ...basics.torch_private import OperatorMode
from ...measuring.bytes_of_calls import RULES
from ..kit.refused import Refused


class Line(OperatorMode):
    """Stands in for the thread of a Zero3: a job is done when somebody waits for it, in turn.

    So an answer that uses what is still on its way is found out, however fast a thread would be.
    """

    def __init__(self, zero):
        super().__init__()
        self.jobs, self.done, self.is_working, self.longest = deque(), 0, False, 0
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
        if func.namespace in RULES and self.jobs and not self.is_working:
            raise Refused("messages go out while the thread fetches a unit", TWO_THREADS)
        return func(*args, **(kwargs or {}))

    def need_good_use(self, number):
        if self.jobs:
            raise Refused("a job was begun, and nobody has waited for its end", NOT_ENDED)
        if number and self.longest < 2:
            raise Refused("in step 2 no unit is fetched ahead", NOT_AHEAD)


TWO_THREADS = (
    "without prefetch it is right; with it two threads send at the same time, and their messages "
    "are mixed up. self.begin(job) puts a job in the line of those in the thread, and returns what "
    "waits for its end"
)
NOT_ENDED = (
    "self.begin(job) returns what waits for the job's end: call it, or the step may come before "
    "the gradients are reduced"
)
NOT_AHEAD = (
    "the numbers are right, but prefetch does nothing: need() looks what comes next, and fetches "
    "it meanwhile. gather() alone does not"
)

"""The cases, and the code that runs next to the answer."""

import time

from coursekit.kit.results import outcome_and_arguments

EXAMPLE = {(0, 1, 1): 4, (1, 2, 1): 2, (0, 2, 2): 5}

RANDOM = 80

AGAIN = "the same rest is computed again and again: functools.cache remembers it"

LAYERS, DEVICES, SECONDS = 16, 16, 20.0  # of the large case, and its limit on processor time

ASKED = "asked is a list of keys (first, end, size), a stage each"


def plans(seconds, layers, devices):
    """Return every possible plan, built from the first layer on."""

    def rest(first, left):
        if first == layers:
            if left == 0:
                yield []
            return
        for begin, end, size in sorted(seconds):
            if begin == first and size <= left:
                yield from ([(begin, end, size), *more] for more in rest(end, left - size))

    return list(rest(0, devices))


def step(seconds, plan, microbatches):
    times = [seconds[stage] for stage in plan]
    return sum(times) + (microbatches - 1) * max(times)


class StageTrial:
    """A case, the answer's plan, and every possible plan."""

    def __init__(self, case, arguments, plan):
        self.seconds, self.layers, self.devices, self.microbatches = arguments
        self.plan, self.every = plan, plans(self.seconds, self.layers, self.devices)
        self.best = min(map(self.seconds_of, self.every))
        self.told = describe_case(case, *arguments[1:])

    def seconds_of(self, plan):
        return step(self.seconds, plan, self.microbatches)

    def reverse_layers(self):
        """Return the same trial with its layers in the opposite order."""
        n = self.layers
        turned = {(n - end, n - first, size): t for (first, end, size), t in self.seconds.items()}
        plan = [(n - end, n - first, size) for first, end, size in reversed(self.plan)]
        return StageTrial("", (turned, n, self.devices, self.microbatches), plan)

    def is_best_by(self, cost) -> bool:
        """Return whether no plan has a lower cost(its stages' times, micro-batches)."""
        costs = [cost([self.seconds[s] for s in plan], self.microbatches)
                 for plan in (self.plan, *self.every)]  # fmt: skip
        return costs[0] == min(costs)


def describe_case(case, layers, devices, B) -> str:
    return f"{case}, {layers} layers, {devices} devices, {B} micro-batches"


POINTED = {
    "the example": (EXAMPLE, 2, 2, 3),
    "a slow stage in front": (
        {(0, 1, 1): 10, (1, 2, 1): 5, (2, 3, 1): 5, (1, 3, 2): 8}, 3, 3, 5),
    "a slow stage at the end": (
        {(0, 1, 1): 5, (1, 2, 1): 5, (0, 2, 2): 8, (2, 3, 1): 10}, 3, 3, 5),
    "one micro-batch": (
        {(0, 1, 1): 9, (1, 2, 1): 1, (0, 2, 2): 11, (0, 1, 2): 3, (1, 2, 2): 3}, 2, 2, 1),
    "many micro-batches": (
        {(0, 1, 1): 6, (1, 3, 1): 6, (0, 2, 1): 9, (2, 3, 1): 1, (0, 3, 2): 7}, 3, 2, 20),
}  # fmt: skip


def time_answer(answer, *arguments) -> tuple:
    """Call an answer; return the outcome, the arguments afterwards, and the seconds it took."""
    began = time.process_time()
    outcome, given = outcome_and_arguments(answer, *arguments)
    return outcome, given, time.process_time() - began

"""Layers cut into stages on submeshes. The truth tries every plan that a dict of stages allows."""

import random
import time
from functools import cache
from math import inf

from ...course.checking import Exercise, Wrong
from ...course.trying import there
from ..kit.outcomes import NO_RETURN, outcome_and_arguments, outcome_of
from ..kit.values import NOT_ITS_OWN
from .chosen_stages import LENGTHS, NOT_BEFORE_THE_BEST, NOT_OF_THE_BEST, OTHER_COSTS

EXAMPLE = {(0, 1, 1): 4, (1, 2, 1): 2, (0, 2, 2): 5}
RANDOM = 80
AGAIN = "the same rest is computed again and again: functools.cache remembers it"
LAYERS, DEVICES, SECONDS = 16, 16, 20.0  # of the large case, and what it may take of a processor
BACKWARDS = "stages are given in the order of the layers, the first one first"
NO_CUT = "each layer belongs to exactly one stage, and a stage begins where the one before ends"
ASKED = "asked is a list of keys (first, end, size), a stage each"


def plans(seconds, layers, devices):
    """Every plan that is possible, from the first layer on."""

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


def random_case(chance, layers, sizes):
    """Whole numbers of seconds, so that sums are exact; some stages are not possible."""
    work = [chance.choice((1, 2, 3, 5, 8, 13)) for _ in range(layers)]
    found, is_even = {}, chance.random() < 0.5
    for first in range(layers):
        for end in range(first + 1, layers + 1):
            for size in sizes:
                if chance.random() < 0.9:
                    found[first, end, size] = (
                        8 * sum(work[first:end]) // size + chance.randint(0, 9)
                        if is_even
                        else chance.randint(1, 30)
                    )
    return found


def random_cases():
    chance = random.Random(17)
    while True:
        layers, devices = chance.randint(1, 5), chance.choice((1, 2, 3, 4, 6, 8))
        sizes = [size for size in (1, 2, 4, 8) if size <= devices]
        seconds = random_case(chance, layers, sizes)
        if plans(seconds, layers, devices):
            yield seconds, layers, devices, chance.choice((1, 2, 3, 6, 20))


def examine(answer):
    chosen = random_cases()
    cases = POINTED | {f"random case {k + 1}": next(chosen) for k in range(RANDOM)}
    tried = [Tried(case, of, asked(case, answer, *of)) for case, of in cases.items()]
    for one in tried:
        if one.seconds_of(one.plan) != one.best:
            what = f"{one.plan} takes {one.seconds_of(one.plan)}; {one.best} is possible"
            raise Wrong(one.told, what, why_slow(tried))
    yield "; ".join(POINTED)
    yield f"{RANDOM} random cases: no plan is faster"
    for case, arguments in IMPOSSIBLE.items():
        need_refusal(case, answer, arguments)
    yield "what is not possible: ValueError"
    need_large(answer)
    yield f"{LAYERS} layers on {DEVICES} devices: no plan is faster"


class Tried:
    """A case, the plan that came, and every other one."""

    def __init__(self, case, arguments, plan):
        self.seconds, self.layers, self.devices, self.microbatches = arguments
        self.plan, self.every = plan, plans(self.seconds, self.layers, self.devices)
        self.best = min(map(self.seconds_of, self.every))
        self.told = in_words(case, *arguments[1:])

    def seconds_of(self, plan):
        return step(self.seconds, plan, self.microbatches)

    def turned(self):
        """The same with its layers in the opposite order."""
        n = self.layers
        turned = {(n - end, n - first, size): t for (first, end, size), t in self.seconds.items()}
        plan = [(n - end, n - first, size) for first, end, size in reversed(self.plan)]
        return Tried("", (turned, n, self.devices, self.microbatches), plan)

    def is_best_by(self, cost) -> bool:
        """Whether no plan has a lower cost, which depends on times and micro-batches."""
        costs = [cost([self.seconds[s] for s in plan], self.microbatches)
                 for plan in (self.plan, *self.every)]  # fmt: skip
        return costs[0] == min(costs)


def in_words(case, layers, devices, B) -> str:
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
IMPOSSIBLE = {
    "no stage for layer 1": ({(0, 1, 1): 1, (2, 3, 1): 1}, 3, 2, 4),
    "devices that no plan uses up": ({(0, 1, 1): 1, (1, 2, 1): 1, (0, 2, 1): 3}, 2, 4, 4),
    "no stage at all": ({}, 2, 2, 4),
}


# ---- What is wrong ---


def timed(answer, *arguments) -> tuple:
    """Beside the answer: what came of a call, its arguments then, and the seconds that it took."""
    began = time.process_time()
    outcome, given = outcome_and_arguments(answer, *arguments)
    return outcome, given, time.process_time() - began


def asked(case, answer, *arguments):
    """The plan of an answer; raises `Wrong` if it is none."""
    return asked_and_timed(case, answer, *arguments)[0]


def asked_and_timed(case, answer, seconds, layers, devices, microbatches):
    """The same, and the seconds that it took."""
    outcome, (given, *_), taken = there(
        timed, answer, dict(seconds), layers, devices, microbatches
    )  # fmt: skip
    told = in_words(case, layers, devices, microbatches)
    if outcome.error:
        why = ("a plan is possible here. A stage that is chosen too early may leave nothing for "
               "the rest") if "ValueError" in outcome.kinds else ""  # fmt: skip
        raise Wrong(told, str(outcome), why)
    if given != seconds:
        raise Wrong(told, "`seconds` has changed", NOT_ITS_OWN)
    plan = stages_of(told, outcome.value, seconds)
    need_plan(told, plan, layers, devices)
    return plan, taken


def stages_of(case, value, seconds):
    if value is None:
        raise Wrong(case, "it returned None", NO_RETURN)
    if isinstance(value, (dict, set, frozenset)):
        raise Wrong(case, f"it returned {value!r:.80}", f"{ASKED}, in the order of the layers")
    try:
        plan = [tuple(int(number) for number in stage) for stage in value]
    except (TypeError, ValueError):
        raise Wrong(case, f"it returned {value!r:.80}", ASKED) from None
    for stage in plan:
        if stage not in seconds:
            raise Wrong(case, f"there is no stage {stage}", f"{ASKED}, and of those in `seconds`")
    return plan


def need_plan(case, plan, layers, devices):
    ends = [0, *(end for _, end, _ in plan)]
    if [first for first, *_ in plan] == ends[:-1] and ends[-1] == layers:
        used = sum(size for *_, size in plan)
        if used < devices:
            why = "all devices are to be used: a plan that leaves some idle does not count"
            raise Wrong(case, f"{plan} uses {used} of {devices} devices", why)
        if used > devices:
            why = "stages work at the same time: each needs devices of its own"
            raise Wrong(case, f"{plan} uses {used} devices, and there are {devices}", why)
        return
    backwards = [first for first, *_ in reversed(plan)] == [0, *(e for _, e, _ in plan[:0:-1])]
    why = BACKWARDS if backwards else NO_CUT
    raise Wrong(case, f"{plan} is no cut of {layers} layers", why)


def why_slow(tried) -> str:
    """The misunderstanding under which all these plans would be the best ones."""
    fits = (s for s, cost in OTHER_COSTS.items() if all(one.is_best_by(cost) for one in tried))
    told = next(fits, "")
    if told:
        return told
    if all(one.seconds_of(one.plan) == without_limits(one) for one in tried):
        return NOT_OF_THE_BEST
    if all(one.seconds_of(one.plan) == without_limits(one.turned()) for one in tried):
        return NOT_BEFORE_THE_BEST
    for sentence, pick in LENGTHS.items():
        if all(len(one.plan) == pick(map(len, one.every)) for one in tried):
            return sentence
    return ""


def without_limits(one) -> float:
    """What comes of it if for each state the rest is the one that would be best alone."""

    @cache
    def rest(first, left):
        if first == one.layers:
            return [] if left == 0 else None
        found = []
        for begin, end, size in one.seconds:
            more = rest(end, left - size) if begin == first and size <= left else None
            if more is not None:
                found.append([(begin, end, size), *more])
        return min(found, key=one.seconds_of, default=None)

    return one.seconds_of(rest(0, one.devices))


def need_refusal(case, answer, arguments):
    outcome = outcome_of(answer, dict(arguments[0]), *arguments[1:])
    if not outcome.error:
        raise Wrong(case, f"no ValueError; it returned {outcome.value!r:.60}",
                    "no plan is possible here: say so, with raise ValueError(…)")  # fmt: skip
    message = outcome.message
    if "ValueError" not in outcome.kinds or "min()" in message or "max()" in message:
        raise Wrong(case, str(outcome), "asked is a ValueError of yours, with a sentence")


# ---- A large one ---


def need_large(answer):
    seconds = random_case(random.Random(5), LAYERS, (1, 2, 4, 8, 16))
    best = by_stages(seconds, LAYERS, DEVICES, 8)
    plan, taken = asked_and_timed("the large one", answer, seconds, LAYERS, DEVICES, 8)
    mine = step(seconds, plan, 8)
    if mine != best:
        raise Wrong("the large one", f"{plan} takes {mine}; {best} is possible")
    if taken > SECONDS:
        raise Wrong("the large one", f"it took {taken:.0f} s", AGAIN)


def by_stages(seconds, layers, devices, B):
    """The shortest step, another way: for each pair of layer and devices, all pairs of sum and
    slowest stage that no other pair beats in both."""
    fronts = {(layers, 0): {(0, 0)}}
    for first in reversed(range(layers)):
        for left in range(1, devices + 1):
            pairs = {
                (total + taken, max(slowest, taken))
                for (begin, end, size), taken in seconds.items() if begin == first
                for total, slowest in fronts.get((end, left - size), ())
            }  # fmt: skip
            kept, least = set(), inf
            for total, slowest in sorted(pairs):
                if slowest < least:
                    kept.add((total, slowest))
                    least = slowest
            fronts[first, left] = kept
    return min(total + (B - 1) * slowest for total, slowest in fronts[0, devices])


EXERCISE = Exercise(
    "10.17",
    "best_stages",
    examine,
    slow=AGAIN,
    hints=(
        "Which values can the slowest stage's seconds have? One of the values of `seconds`.",
        "For one such limit: rest(first, left), the least sum for the layers from `first` on, on "
        "exactly `left` devices, without stages slower than the limit.",
        "Take as the first stage each key that begins at `first`; what is left is the same "
        "question again. functools.cache remembers its answers.",
        "Then compare sum + (microbatches - 1) × limit over all limits.",
    ),
)

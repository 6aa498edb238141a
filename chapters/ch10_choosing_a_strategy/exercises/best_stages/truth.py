"""The right results, and the results of known mistakes."""

import random
from functools import cache
from math import inf

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Wrong
from coursekit.kit.results import NOT_ITS_OWN, RETURNS_NONE, outcome_of

from .cases import AGAIN, ASKED, DEVICES, LAYERS, SECONDS, describe_case, plans, step, time_answer
from .chosen_stages import LENGTHS, NOT_BEFORE_THE_BEST, NOT_OF_THE_BEST, OTHER_COSTS

BACKWARDS = "stages are given in the order of the layers, the first one first"

NO_CUT = "each layer belongs to exactly one stage, and a stage begins where the one before ends"


def random_case(chance, layers, sizes):
    """Return whole seconds of stages, so that sums are exact; some stages are not possible."""
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


IMPOSSIBLE = {
    "no stage for layer 1": ({(0, 1, 1): 1, (2, 3, 1): 1}, 3, 2, 4),
    "devices that no plan uses up": ({(0, 1, 1): 1, (1, 2, 1): 1, (0, 2, 1): 3}, 2, 4, 4),
    "no stage at all": ({}, 2, 2, 4),
}


def read_plan(case, answer, *arguments):
    """Return the plan of an answer; raise `Wrong` if it is none."""
    return read_timed_plan(case, answer, *arguments)[0]


def read_timed_plan(case, answer, seconds, layers, devices, microbatches):
    """Return the plan of an answer and the seconds that it took; raise `Wrong` if it is none."""
    outcome, (given, *_), taken = call_next_to_answer(
        time_answer, answer, dict(seconds), layers, devices, microbatches
    )  # fmt: skip
    told = describe_case(case, layers, devices, microbatches)
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
        raise Wrong(case, "it returned None", RETURNS_NONE)
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
    """Return the misconception under which all these plans would be the best ones, or ""."""
    fits = (s for s, cost in OTHER_COSTS.items() if all(one.is_best_by(cost) for one in tried))
    told = next(fits, "")
    if told:
        return told
    if all(one.seconds_of(one.plan) == search_without_limits(one) for one in tried):
        return NOT_OF_THE_BEST
    if all(
        one.seconds_of(one.plan) == search_without_limits(one.reverse_layers()) for one in tried
    ):
        return NOT_BEFORE_THE_BEST
    for sentence, pick in LENGTHS.items():
        if all(len(one.plan) == pick(map(len, one.every)) for one in tried):
            return sentence
    return ""


def search_without_limits(one) -> float:
    """Return a step's seconds if each state is followed by the rest that is best by itself."""

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


def need_large(answer):
    seconds = random_case(random.Random(5), LAYERS, (1, 2, 4, 8, 16))
    best = search_fronts(seconds, LAYERS, DEVICES, 8)
    plan, taken = read_timed_plan("the large one", answer, seconds, LAYERS, DEVICES, 8)
    mine = step(seconds, plan, 8)
    if mine != best:
        raise Wrong("the large one", f"{plan} takes {mine}; {best} is possible")
    if taken > SECONDS:
        raise Wrong("the large one", f"it took {taken:.0f} s", AGAIN)


def search_fronts(seconds, layers, devices, B):
    """Return the shortest step, found in another way.

    For each pair of layer and devices, keep all pairs of sum and slowest stage that no other pair
    beats in both.
    """
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

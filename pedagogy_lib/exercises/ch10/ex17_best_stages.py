"""Layers cut into stages on submeshes. The truth tries every plan that a dict of stages allows."""

import random
import time
from functools import cache
from math import inf

from ...course.checking import Exercise, Wrong
from ..kit.outcomes import NO_RETURN, outcome_of
from ..kit.values import NOT_ITS_OWN

EXAMPLE = {(0, 1, 1): 4, (1, 2, 1): 2, (0, 2, 2): 5}
RANDOM = 80
LAYERS, DEVICES, SECONDS = 12, 16, 20.0  # of the large case, and what it may take of a processor
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
    found = {}
    for first in range(layers):
        for end in range(first + 1, layers + 1):
            for size in sizes:
                if chance.random() < 0.9:
                    found[first, end, size] = (
                        8 * sum(work[first:end]) // size + chance.randint(0, 9)
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
    seconds = dict(EXAMPLE)
    judge("the example", answer, seconds, 2, 2, 3)
    yield "the example: two stages"
    judge("one micro-batch: the sum alone counts", answer, *POINTED["one"])
    judge("many micro-batches", answer, *POINTED["many"])
    yield "one micro-batch, and many"
    cases = random_cases()
    for number in range(RANDOM):
        judge(f"random case {number + 1}", answer, *next(cases))
    yield f"{RANDOM} random cases: no plan is faster"
    for case, arguments in IMPOSSIBLE.items():
        need_refusal(case, answer, arguments)
    yield "what is not possible: ValueError"
    need_large(answer)
    yield f"{LAYERS} layers on {DEVICES} devices: no plan is faster"


POINTED = {
    "one": ({(0, 1, 1): 9, (1, 2, 1): 1, (0, 2, 2): 11, (0, 1, 2): 3, (1, 2, 2): 3}, 2, 2, 1),
    "many": ({(0, 1, 1): 6, (1, 3, 1): 6, (0, 2, 1): 9, (2, 3, 1): 1, (0, 3, 2): 7}, 3, 2, 20),
}
IMPOSSIBLE = {
    "no stage for layer 1": ({(0, 1, 1): 1, (2, 3, 1): 1}, 3, 2, 4),
    "devices that no plan uses up": ({(0, 1, 1): 1, (1, 2, 1): 1, (0, 2, 1): 3}, 2, 4, 4),
    "no stage at all": ({}, 2, 2, 4),
}


# ---- What is wrong ---


def judge(case, answer, seconds, layers, devices, microbatches, best=None):
    given = dict(seconds)
    outcome = outcome_of(answer, given, layers, devices, microbatches)
    told = f"{case}, {layers} layers, {devices} devices, {microbatches} micro-batches"
    if outcome.error:
        why = "a plan is possible here" if "ValueError" in outcome.kinds else ""
        raise Wrong(told, str(outcome), why)
    if given != seconds:
        raise Wrong(told, "`seconds` has changed", NOT_ITS_OWN)
    plan = stages_of(told, outcome.value, seconds)
    need_plan(told, plan, layers, devices)
    if best is None:
        every = plans(seconds, layers, devices)
        best = min(step(seconds, other, microbatches) for other in every)
    else:
        every = []
    mine = step(seconds, plan, microbatches)
    if mine != best:
        why = why_slow(seconds, plan, every, layers, devices, microbatches)
        raise Wrong(told, f"{plan} takes {mine}; {best} is possible", why)


def stages_of(case, value, seconds):
    if value is None:
        raise Wrong(case, "it returned None", NO_RETURN)
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
            raise Wrong(case, f"{plan} uses {used} of {devices} devices",
                        "all devices are to be used: a plan that leaves some idle does not count")  # fmt: skip
        if used > devices:
            raise Wrong(case, f"{plan} uses {used} devices, and there are {devices}",
                        "stages work at the same time: each needs devices of its own")  # fmt: skip
        return
    backwards = [first for first, *_ in reversed(plan)] == [0, *(e for _, e, _ in plan[:0:-1])]
    why = "stages are given in the order of the layers, the first one first" if backwards else (
        "each layer belongs to exactly one stage, and a stage begins where the one before ends"
    )  # fmt: skip
    raise Wrong(case, f"{plan} is no cut of {layers} layers", why)


def why_slow(seconds, plan, every, layers, devices, B) -> str:
    """The first misunderstanding under which this plan would be the best of all."""
    def times(of):
        return [seconds[stage] for stage in of]

    other_sums = {
        "the first micro-batch goes through all stages one after another: their sum counts, not "
        "only the slowest stage": lambda t: (max(t), 0),
        "first the slowest stage, then the sum, is another order: a slower slowest stage may be "
        "worth it if the sum gets smaller": lambda t: (max(t), sum(t)),
        "with B micro-batches the other B - 1 follow the first one at the pace of the slowest "
        "stage; the sum alone is what a single micro-batch takes": lambda t: (sum(t), 0),
        "the first micro-batch is in the sum already: B - 1 others follow, not B":
            lambda t: (sum(t) + B * max(t), 0),
        "B - 1 micro-batches follow the first one, and not one alone":
            lambda t: (sum(t) + max(t), 0),
        "(B + stages - 1) × the slowest is right for equal stages. Here stages differ: the first "
        "micro-batch takes the sum": lambda t: ((B + len(t) - 1) * max(t), 0),
        "the stages work at the same time on different micro-batches: not every one of them takes "
        "the whole sum": lambda t: (B * sum(t), 0),
    }  # fmt: skip
    chosen = times(plan)
    for sentence, cost in other_sums.items():
        if every and cost(chosen) == min(cost(times(other)) for other in every):
            return sentence
    if times(plan) and sum_of(plan, seconds, B) == without_limits(seconds, layers, devices, B):
        return ("the best plan of the rest need not be part of the best plan: a slower stage in "
                "front makes another rest better. For a given limit on the slowest stage it is")  # fmt: skip
    if every and len(plan) == min(map(len, every)):
        return "this has the fewest stages; more of them may be faster"
    if every and len(plan) == max(map(len, every)):
        return "this has the most stages; fewer of them may be faster"
    return ""


def sum_of(plan, seconds, B):
    return step(seconds, plan, B)


def without_limits(seconds, layers, devices, B):
    """What the best rest, taken for each state alone, would lead to."""

    @cache
    def rest(first, left):
        if first == layers:
            return [] if left == 0 else None
        found = []
        for begin, end, size in seconds:
            more = rest(end, left - size) if begin == first and size <= left else None
            if more is not None:
                found.append([(begin, end, size), *more])
        return min(found, key=lambda plan: step(seconds, plan, B), default=None)

    plan = rest(0, devices)
    return step(seconds, plan, B) if plan else inf


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
    chance = random.Random(5)
    seconds = {key: taken for key, taken in
               random_case(chance, LAYERS, (1, 2, 4, 8, 16)).items()}  # fmt: skip
    best = by_stages(seconds, LAYERS, DEVICES, 8)
    began = time.process_time()
    judge("the large one", answer, seconds, LAYERS, DEVICES, 8, best)
    if time.process_time() - began > SECONDS:
        raise Wrong("the large one", f"it took {time.process_time() - began:.0f} s",
                    "the same rest is computed again and again: functools.cache remembers it")  # fmt: skip


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
    hints=(
        "Which values can the slowest stage's seconds have? One of the values of `seconds`.",
        "For one such limit: rest(first, left), the least sum for the layers from `first` on, on "
        "exactly `left` devices, without stages slower than the limit.",
        "Take as the first stage each key that begins at `first`; what is left is the same question "
        "again. functools.cache remembers its answers.",
        "Then compare sum + (microbatches - 1) × limit over all limits.",
    ),
)

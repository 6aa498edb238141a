"""Layers shared out to stages. Times are whole numbers, or eighths, so that sums are exact.

The truth is the lowest number of seconds that is enough for each stage, whatever the sizes are.
"""

import random
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, pairwise

from ...basics.errors import HangError
from ...course.checking import Wrong
from ..kit import RankExercise, complains, first_true
from ..kit.alone import Alone, alone
from ..kit.outcomes import NO_RETURN, Outcome, outcome_of
from ..kit.tables import tabled

LISTS = {  # {case: [(seconds of each layer, stages), …]}; the first tell misconceptions apart
    "the last one takes longest": [([1, 2, 1, 2, 3, 9], 3)],
    "the first one takes longest": [([9, 1, 1, 1, 1, 1], 3)],
    "one long one in the middle": [([2, 2, 2, 11, 2, 2, 2], 4)],
    "greedy sharing fails": [([4, 4, 4, 4, 4, 4, 1, 1, 7], 3)],
    "a small sum of squares fails": [([7, 2, 7, 8, 4, 2, 6, 3], 3)],
    "special ones": [
        ([3] * 7, 3), ([6, 4, 1, 11, 2], 3), ([0, 0, 5, 0, 0, 5, 0], 4), ([0, 0, 0], 2),
        ([5, 1, 3], 1), ([5, 1, 3], 3), ([4], 1),
    ],
}  # fmt: skip
RANDOM = 60  # lists more, of up to 8 layers
TOO_FEW = [([1, 2], 3), ([], 1)]
LAYERS, STAGES = 60, 10  # of the large list: a thousand million cuts and more
SECONDS = 1.0  # for all lists together; a rank that computes gets three times that
EVERY_CUT = (
    "there are more than a thousand million cuts, and what is best for the layers from the k-th "
    "on, in so many stages, is computed again and again. Compute it once for each k and number of "
    "stages: functools.cache remembers what a function has returned"
)
NO_CUT_LEFT = (
    "for some layer there is no cut left to choose from: the stages after this one need a layer "
    "each, so it ends at the latest where so many are left"
)
REFUSE = "say so: raise ValueError(…), with a message that tells how many of each there are"
FRACTIONS = (
    "with whole numbers it was right. Layers may take 0.5, too: no sum of them is to be rounded, "
    "nor does a limit go up in steps of 1"
)
ERRORS = {
    "min() arg is an empty": NO_CUT_LEFT,
    "min() iterable argument is empty": NO_CUT_LEFT,
    "division by zero": "layers may take no time at all",
    "unhashable": "functools.cache remembers by arguments, and a list cannot be one: hand on where "
    "the rest of the layers begins, a number",
    "recursion depth": "the recursion has no end: with one stage left there is nothing to choose",
}


def random_lists():
    """The second half of them of fractions, whose sums are exact, too."""
    chance = random.Random(8)
    for number in range(RANDOM):
        seconds = [chance.choice((0, 1, 2, 3, 5, 8)) for _ in range(chance.randint(2, 8))]
        seconds = seconds if number < RANDOM / 2 else [second / 8 for second in seconds]
        yield seconds, chance.randint(1, len(seconds))


def large_list() -> tuple[list[int], int]:
    chance = random.Random(13)
    return [chance.randint(1, 99) for _ in range(LAYERS)], STAGES


# ---- On a rank, which can be stopped ---


@dataclass(frozen=True)
class Shared:
    """A list that was shared out: what came of it, and whether it is another one afterwards."""

    seconds: list[float]
    stages: int
    outcome: Outcome
    changed: bool

    def __str__(self):
        return f"{self.seconds} on {self.stages} stage{'s' * (self.stages > 1)}"


def share_out(answer, lists):
    found = []
    for seconds, stages in lists:
        given = list(seconds)
        outcome = outcome_of(answer, given, stages)
        outcome = outcome._replace(value=as_sizes(outcome.value))
        found.append((outcome, given != seconds))
    return {"shared": found}


def as_sizes(value):
    """A list of whole numbers, or a text that shows what else was returned."""
    with suppress(TypeError, ValueError, RuntimeError):
        sizes = value.tolist() if hasattr(value, "tolist") else list(value)
        if all(int(size) == size for size in sizes):
            return [int(size) for size in sizes]
    return None if value is None else f"{value!r:.60}"


# ---- What is right ---


def shared_out(trial) -> list[Shared]:
    (lists,), found = trial.case.args, trial[0].shared
    return [Shared(*of, *came) for of, came in zip(lists, found, strict=True)]


def times_of(seconds, sizes) -> list[float]:
    ends = [sum(sizes[: stage + 1]) for stage in range(len(sizes))]
    return [sum(seconds[end - size : end]) for size, end in zip(sizes, ends)]


def calls() -> list[tuple]:
    """All lists, as they are and sorted."""
    given = [*(call for some in LISTS.values() for call in some), *random_lists(), large_list()]
    return [(of, stages) for seconds, stages in given for of in (seconds, sorted(seconds))]


@tabled(calls)
def lowest_limit(seconds, stages) -> float:
    """The lowest number of seconds that is enough for each stage: what some layers take."""
    limits = {sum(seconds[a:b]) for a, b in combinations(range(len(seconds) + 1), 2)}
    enough = (limit for limit in sorted(limits) if limit >= max(seconds))
    return next(limit for limit in enough if stages_needed(seconds, limit) <= stages)


def stages_needed(seconds, limit) -> int:
    needed, filled = 1, 0
    for layer in seconds:
        fits = filled + layer <= limit
        needed, filled = (needed, filled + layer) if fits else (needed + 1, layer)
    return needed


# ---- What is wrong ---


def complaints(trial):
    for shared in shared_out(trial):
        find = refusals if len(shared.seconds) < shared.stages else faults
        yield from ((f"{shared}: {what}", why) for what, why in find(shared))


def refusals(shared):
    outcome = shared.outcome
    if "ValueError" not in outcome.kinds:
        yield f"{outcome}\nexpected a ValueError", REFUSE
    elif not outcome.message or "min()" in outcome.message or "max()" in outcome.message:
        yield f"the ValueError is not yours: {outcome.message}", REFUSE


def faults(shared):
    seconds, stages, sizes = shared.seconds, shared.stages, shared.outcome.value
    if shared.outcome.error:
        message, is_type = shared.outcome.message, "TypeError" in shared.outcome.kinds
        yield (
            str(shared.outcome),
            first_true(
                {FRACTIONS: is_type and has_fractions(seconds)}
                | {ERRORS[words]: words in message for words in ERRORS}
            ),
        )
    if not isinstance(sizes, list):
        asked = "what is asked for is a list: a size for each stage"
        yield f"it returned {sizes}", NO_RETURN if sizes is None else asked
    if shared.changed:
        yield "`seconds` has changed", "it belongs to the caller: copy it first"
    if len(sizes) != stages or sum(sizes) != len(seconds) or min(sizes) < 1:
        count = f"{len(sizes)} stages, {sum(sizes)} layers of {len(seconds)}"
        yield f"it gave {sizes}: {count}", why_no_cut(seconds, stages, sizes)
    times, best = times_of(seconds, sizes), lowest_limit(seconds, stages)
    if max(times) != best:
        what = f"{sizes}: the stages take {times}, the slowest {max(times)}; {best} is possible"
        yield what, why_slow(seconds, stages, sizes)


def has_fractions(seconds) -> bool:
    """So it is only in a list after those of whole numbers."""
    return any(second % 1 for second in seconds)


def why_no_cut(seconds, stages, sizes) -> str:
    return first_true({
        "these are where the stages end; asked is how many layers each one has":
            sizes[-1:] == [len(seconds)] and sizes == sorted(sizes) and len(sizes) > 1,
        "asked is one size for each stage": len(sizes) != stages,
        "each stage gets at least one layer: a rank without any is no stage":
            sum(sizes) == len(seconds),
        "these are seconds of each stage; asked is how many layers each one has":
            sum(sizes) == sum(seconds),
        "every layer belongs to a stage, and to one alone: the sizes add up to the layers": True,
    })  # fmt: skip


def why_slow(seconds, stages, sizes) -> str:
    best, in_order = lowest_limit(seconds, stages), sorted(seconds)
    to_the_mean = by_the_mean(seconds, stages, 1)
    return first_true({
        "as many layers for each stage, or layers until the mean is reached: here, both give this. "
        "The slowest stage decides how fast a pipeline is: which limit is the lowest that all can "
        "keep?": sizes == even(len(seconds), stages) == to_the_mean,
        "as many layers for each stage as for the others: even_sizes does that. Layers take "
        "different times, and the slowest stage decides how fast a pipeline is":
            sizes == even(len(seconds), stages),
        "a stage takes layers as long as it stays below the mean, seconds / stages. So what is "
        "left over comes to the last one. The slowest stage may have to take more than the mean: "
        "which limit is the lowest that all can keep?": sizes == by_the_mean(seconds, stages, 0),
        "a stage takes layers until it has reached the mean, seconds / stages, and the one that "
        "reaches it may be long. Which limit is the lowest that all stages can keep?":
            sizes == to_the_mean,
        "the slowest stage alone counts, not all of them. A sum over the stages, as of squares or "
        "of distances from the mean, may be smaller with a slower slowest one":
            len(seconds) < LAYERS and sizes == least_squares(seconds, stages),
        "these are the sizes from the last stage to the first":
            max(times_of(seconds, sizes[::-1])) == best,
        "these would be right for sorted layers. Their order is that of the model: a stage is made "
        "of layers that follow each other":
            max(times_of(in_order, sizes)) == lowest_limit(in_order, stages),
        FRACTIONS: has_fractions(seconds),
    })  # fmt: skip


def even(layers, stages) -> list[int]:
    small, more = divmod(layers, stages)
    return [small + (stage < more) for stage in range(stages)]


def least_squares(seconds, stages) -> list[int]:
    """By trying all cuts."""
    ends = ((0, *of, len(seconds)) for of in combinations(range(1, len(seconds)), stages - 1))
    cuts = ([end - begin for begin, end in pairwise(of)] for of in ends)
    return min(cuts, key=lambda sizes: sum(time**2 for time in times_of(seconds, sizes)))


def by_the_mean(seconds, stages, over) -> list[int]:
    """Stages that are filled one after another up to the mean: just over it, or not.

    Each leaves a layer for every stage behind it.
    """
    sizes, mean, at = [], sum(seconds) / stages, 0
    for stage in range(stages - 1):
        end, last = at + 1, len(seconds) - (stages - 1 - stage)
        while end < last and sum(seconds[at : end + (not over)]) <= mean - over * 1e-9:
            end += 1
        sizes.append(end - at)
        at = end
    return [*sizes, len(seconds) - at]


def told(trial) -> str:
    first, *others = shared_out(trial)
    seconds, sizes = first.seconds, first.outcome.value
    if sizes is None:
        return "refused"
    if others:
        return f"{1 + len(others)} lists, no cut is better"
    slowest, mean = max(times_of(seconds, sizes)), sum(seconds) / len(sizes)
    return f"{sizes}, the slowest takes {slowest}, the mean is {mean:.4g}"


def told_slow(case, error):
    """Raise `Wrong` for an answer that was stopped: nobody can give check() a larger timeout."""
    if isinstance(error, HangError):
        at = error.waits[0] and f"\n  at {error.waits[0]}"
        what = f"it is too slow, and was stopped while still at work{at or ''}"
        raise Wrong(str(case), what, EVERY_CUT)


EXERCISE = RankExercise(
    "8.14",
    "balance",
    lab="pipeline_parallel",
    cases=[
        *(Alone(what, share_out, (lists,)) for what, lists in LISTS.items()),
        Alone("random ones", share_out, (list(random_lists()),)),
        Alone("fewer layers than stages", share_out, (TOO_FEW,)),
        Alone(f"{LAYERS} layers on {STAGES} stages", share_out, ([large_list()],)),
    ],
    work=alone,
    facts=[complains(complaints)],
    told=told,
    explain=told_slow,
    timeout=SECONDS,
    hints=(
        "Say that the first stage takes so many layers. What is left is the same question "
        "again, for fewer layers and one stage less.",
        "Write best(begin, stages): the slowest stage's seconds, and the sizes, for the layers "
        "from `begin` on. With one stage there is nothing to choose.",
        "Else try each end of the first stage that leaves a layer for every other one: "
        "max(its seconds, those of best(end, stages - 1)), and take the minimum.",
        "@functools.cache on best: it is asked for the same rest again and again. Before all: "
        "fewer layers than stages are a ValueError.",
    ),
)  # fmt: skip

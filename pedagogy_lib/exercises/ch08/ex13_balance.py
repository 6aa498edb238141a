"""Layers shared out to stages: exercise 8.13. The truth goes through all cuts; no ranks.

For the large list, for which these are too many, it looks for the lowest limit that stages can
keep. Times are whole numbers, so that sums are exact.
"""

import random
from functools import partial
from itertools import combinations

from ...basics.errors import HangError
from ...course.checking import Exercise, Wrong, try_on_ranks
from ..kit.outcomes import NO_RETURN, Outcome, outcome_of, whole_numbers

# {case: (seconds of each layer, stages)}; the first ones tell the misconceptions apart
SMALL = {
    "the last one takes longest": ([1, 2, 1, 2, 3, 9], 3),
    "the first one takes longest": ([9, 1, 1, 1, 1, 1], 3),
    "one long one in the middle": ([2, 2, 2, 11, 2, 2, 2], 4),
    "greedy sharing fails": ([4, 4, 4, 4, 4, 4, 1, 1, 7], 3),
    "equal layers": ([3, 3, 3, 3, 3, 3, 3], 3),
    "some take no time": ([0, 0, 5, 0, 0, 5, 0], 4),
    "none takes time": ([0, 0, 0], 2),
    "one stage": ([5, 1, 3], 1),
    "a layer for each stage": ([5, 1, 3], 3),
    "a single layer": ([4], 1),
}
TOLD = 4  # of these, by themselves
RANDOM = 60  # lists more, of up to 8 layers
LARGE = 60, 10  # layers, stages: 10^9 cuts and more
TOO_FEW = [([1, 2], 3), ([], 1)]
LARGE_SECONDS = 0.8  # for the large list; a rank that computes gets three times that
EVERY_CUT = (
    "there are more than a thousand million cuts, and what is best for the layers from the k-th "
    "on, in so many stages, is computed again and again. Compute it once for each k and number of "
    "stages: functools.cache remembers what a function has returned"
)
ONE_LAYER_AT_LEAST = "each stage gets at least one layer: a rank without any is no stage"
SHORT = "every layer belongs to a stage, and to one alone: the sizes add up to the layers"
COUNT = "asked is one size for each stage"
AS_ENDS = "these are where the stages end; asked is how many layers each one has"
AS_SECONDS = "these are seconds of each stage; asked is how many layers each one has"
EVEN = (
    "as many layers for each stage as for the others: even_sizes does that. Layers take different "
    "times, and the slowest stage decides how fast a pipeline is"
)
MEAN_FIRST = (
    "a stage takes layers as long as it stays below the mean, seconds / stages. So what is left "
    "over comes to the last one. The slowest stage may have to take more than the mean: which "
    "limit is the lowest that all can keep?"
)
MEAN_OVER = (
    "a stage takes layers until it has reached the mean, seconds / stages, and the one that "
    "reaches it may be long. Which limit is the lowest that all stages can keep?"
)
SORTED = (
    "these would be right for sorted layers. Their order is that of the model: a stage is made of "
    "layers that follow each other"
)
REVERSED = "these are the sizes from the last stage to the first"
REFUSE = "say so: raise ValueError(…), with a message that tells how many of each there are"
ERRORS = {
    "min() arg is an empty": "for some layer there is no cut left to choose from: the stages after "
    "this one need a layer each, so it ends at the latest where so many are left",
    "min() iterable argument is empty": "for some layer there is no cut left to choose from: the "
    "stages after this one need a layer each, so it ends at the latest where so many are left",
    "division by zero": "layers may take no time at all",
    "unhashable": "functools.cache remembers by arguments, and a list cannot be one: hand on where "
    "the rest of the layers begins, a number",
    "recursion depth": "the recursion has no end: with one stage left there is nothing to choose",
}


def small_lists() -> list[tuple[str, list[int], int]]:
    chance = random.Random(8)
    found = [(case, *task) for case, task in SMALL.items()]
    for number in range(RANDOM):
        seconds = [chance.choice((0, 1, 2, 3, 5, 8)) for _ in range(chance.randint(2, 8))]
        stages = chance.randint(1, len(seconds))
        found.append((f"random list {number + 1}", seconds, stages))
    return found


def large_list() -> tuple[list[int], int]:
    chance, (layers, stages) = random.Random(13), LARGE
    return [chance.randint(1, 99) for _ in range(layers)], stages


def examine_balance(answer):
    lists = small_lists()
    tasks = [task for _, *task in lists] + TOO_FEW
    outcomes = outcomes_of(answer, tasks, "small lists")
    for number, ((case, seconds, stages), outcome) in enumerate(zip(lists, outcomes)):
        case = f"{case}: {seconds} on {told_stages(stages)}"
        best = min(slowest(seconds, sizes) for sizes in all_cuts(len(seconds), stages))
        sizes = judge(case, seconds, stages, outcome, best)
        if number < TOLD:
            yield f"{case}: {sizes}, the slowest takes {best}"
    yield f"{len(lists) - TOLD} lists more, most of them random: no cut is better"
    for (seconds, stages), outcome in zip(TOO_FEW, outcomes[len(lists) :]):
        judge_refusal(f"{seconds} on {told_stages(stages)}", outcome)
    yield "fewer layers than stages: refused"
    yield examine_large(answer)


def told_stages(stages) -> str:
    return f"{stages} stage" + ("s" if stages > 1 else "")


def examine_large(answer) -> str:
    seconds, stages = large_list()
    case = f"{len(seconds)} layers on {stages} stages"
    settings = {"explain": partial(told_slow, case), "timeout": LARGE_SECONDS}
    (outcome,) = outcomes_of(answer, [(seconds, stages)], case, **settings)
    best = lowest_limit(seconds, stages)
    judge(case, seconds, stages, outcome, best)
    return f"{case}: the slowest takes {best}, {best / (sum(seconds) / stages):.3f} of the mean"


def told_slow(case, error) -> str:
    """Raise `Wrong` for an answer that was stopped: nobody can give check() a larger timeout."""
    if isinstance(error, HangError):
        place = error.waits[0] and f"\n  at {error.waits[0]}"
        what = f"it is too slow, and was stopped while still at work{place or ''}"
        raise Wrong(case, what, EVERY_CUT)
    return ""


def outcomes_of(answer, tasks, case, **settings) -> list[tuple[Outcome, bool]]:
    """For each task what comes of it, and whether `seconds` is another list afterwards.

    settings  what else try_on_ranks takes
    """
    return try_on_ranks(case, try_lists, answer, tasks, world_size=1, **settings).values[0]


def try_lists(answer, tasks):
    found = []
    for seconds, stages in tasks:
        given = list(seconds)
        outcome = outcome_of(answer, given, stages)
        found.append((outcome._replace(value=as_plain(outcome.value)), given != seconds))
    return found


def as_plain(value):
    """A list, or a text that shows what else was returned: not everything can travel."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return list(value) if all(isinstance(x, (int, float)) for x in value) else f"{value!r:.60}"
    return value if value is None else f"{value!r:.60}"


# ---- The truth ---------------------------------------------------------------------------------


def all_cuts(layers, stages):
    """Every way to share them out: the sizes of the stages."""
    for ends in combinations(range(1, layers), stages - 1):
        yield [end - begin for begin, end in zip((0, *ends), (*ends, layers))]


def times_of(seconds, sizes) -> list[int]:
    ends = [sum(sizes[: stage + 1]) for stage in range(len(sizes))]
    return [sum(seconds[end - size : end]) for size, end in zip(sizes, ends)]


def slowest(seconds, sizes) -> int:
    return max(times_of(seconds, sizes))


def lowest_limit(seconds, stages) -> int:
    """The lowest number of seconds that is enough for each stage."""
    limit = max(seconds)
    while stages_needed(seconds, limit) > stages:
        limit += 1
    return limit


def stages_needed(seconds, limit) -> int:
    needed, filled = 1, 0
    for layer in seconds:
        needed, filled = (
            (needed, filled + layer) if filled + layer <= limit else (needed + 1, layer)
        )
    return needed


# ---- What is wrong -----------------------------------------------------------------------------


def judge(case, seconds, stages, found, best) -> list[int]:
    """The sizes; raises `Wrong` unless the slowest stage takes `best`."""
    outcome, changed = found
    if outcome.error:
        why = next((why for words, why in ERRORS.items() if words in outcome.message), "")
        raise Wrong(case, str(outcome), why)
    if outcome.value is None:
        raise Wrong(case, "it returned None", NO_RETURN)
    sizes = whole_numbers(case, "the result", outcome.value, "a size for each stage")
    if changed:
        raise Wrong(case, "`seconds` has changed", "it belongs to the caller: copy it first")
    need_cut(case, seconds, stages, sizes)
    got = slowest(seconds, sizes)
    if got != best:
        times = times_of(seconds, sizes)
        what = f"{sizes}: the stages take {times}, the slowest {got}; {best} is possible"
        raise Wrong(case, what, why_slow(seconds, stages, sizes))
    return sizes


def need_cut(case, seconds, stages, sizes):
    """Raise `Wrong` unless these are sizes of so many stages."""
    what = f"it gave {sizes}"
    if sizes and sizes[-1] == len(seconds) and sizes == sorted(sizes) and len(sizes) > 1:
        raise Wrong(case, what, AS_ENDS)
    if len(sizes) != stages:
        raise Wrong(case, f"{what}, which is {len(sizes)} of {stages}", COUNT)
    if any(size < 1 for size in sizes) and sum(sizes) == len(seconds):
        raise Wrong(case, what, ONE_LAYER_AT_LEAST)
    if sum(sizes) != len(seconds):
        is_seconds = sum(sizes) == sum(seconds)
        raise Wrong(case, f"{what}, {sum(sizes)} layers of {len(seconds)}",
                    AS_SECONDS if is_seconds else SHORT)  # fmt: skip


def why_slow(seconds, stages, sizes) -> str:
    guesses = {
        EVEN: even(len(seconds), stages),
        MEAN_FIRST: by_the_mean(seconds, stages, over=False),
        MEAN_OVER: by_the_mean(seconds, stages, over=True),
    }
    known = next((why for why, guess in guesses.items() if guess == sizes), "")
    best = min_or_none(seconds, stages)
    if known or best is None:
        return known
    if slowest(seconds, sizes[::-1]) == best:
        return REVERSED
    is_best_sorted = slowest(sorted(seconds), sizes) == min_or_none(sorted(seconds), stages)
    return SORTED if is_best_sorted else ""


def min_or_none(seconds, stages):
    if len(seconds) > 10:
        return None
    return min(slowest(seconds, sizes) for sizes in all_cuts(len(seconds), stages))


def even(layers, stages) -> list[int]:
    small, more = divmod(layers, stages)
    return [small + (stage < more) for stage in range(stages)]


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


def judge_refusal(case, found):
    outcome, _ = found
    if "ValueError" not in outcome.kinds:
        raise Wrong(case, f"{outcome}\nexpected a ValueError", REFUSE)
    if not outcome.message or "min()" in outcome.message or "max()" in outcome.message:
        what = f"the ValueError is not yours: {outcome.message}"
        raise Wrong(case, what, REFUSE)


EXERCISE = Exercise(
    "8.13", "balance", examine_balance,
    (
        "Say that the first stage takes so many layers. What is left is the same question "
        "again, for fewer layers and one stage less.",
        "Write best(begin, stages): the slowest stage's seconds, and the sizes, for the layers "
        "from `begin` on. With one stage there is nothing to choose.",
        "Else try each end of the first stage that leaves a layer for every other one: "
        "max(its seconds, those of best(end, stages - 1)), and take the minimum.",
        "@functools.cache on best: it is asked for the same rest again and again. Before all: "
        "fewer layers than stages are a ValueError.",
    ),
    lab="pipeline_parallel",
)  # fmt: skip

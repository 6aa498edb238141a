"""The right results, and the results of known mistakes."""

from dataclasses import dataclass
from itertools import combinations, pairwise

from coursekit.kit import Wrong, first_true
from coursekit.kit.results import RETURNS_NONE, Outcome
from coursekit.kit.tables import tabulate
from pedagogy_lib.basics.errors import HangError

from .cases import LAYERS, LISTS, large_list, random_lists

SECONDS = 1.0  # for all lists together; a rank that is computing gets three times as long

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


@dataclass(frozen=True)
class BalanceResult:
    """The outcome for one list of layers, and whether the answer has changed that list."""

    seconds: list[float]
    stages: int
    outcome: Outcome
    changed: bool

    def __str__(self):
        return f"{self.seconds} on {self.stages} stage{'s' * (self.stages > 1)}"


def read_results(trial) -> list[BalanceResult]:
    (lists,), found = trial.case.args, trial[0].shared
    return [BalanceResult(*of, *came) for of, came in zip(lists, found, strict=True)]


def times_of(seconds, sizes) -> list[float]:
    ends = [sum(sizes[: stage + 1]) for stage in range(len(sizes))]
    return [sum(seconds[end - size : end]) for size, end in zip(sizes, ends)]


def calls() -> list[tuple]:
    """Return the arguments of each call: every list as it is, and sorted."""
    given = [*(call for some in LISTS.values() for call in some), *random_lists(), large_list()]
    return [(of, stages) for seconds, stages in given for of in (seconds, sorted(seconds))]


@tabulate(calls)
def lowest_limit(seconds, stages) -> float:
    """Return the lowest limit that all stages can keep: the seconds of some consecutive layers."""
    limits = {sum(seconds[a:b]) for a, b in combinations(range(len(seconds) + 1), 2)}
    enough = (limit for limit in sorted(limits) if limit >= max(seconds))
    return next(limit for limit in enough if stages_needed(seconds, limit) <= stages)


def stages_needed(seconds, limit) -> int:
    needed, filled = 1, 0
    for layer in seconds:
        fits = filled + layer <= limit
        needed, filled = (needed, filled + layer) if fits else (needed + 1, layer)
    return needed


def complaints(trial):
    for shared in read_results(trial):
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
        yield f"it returned {sizes}", RETURNS_NONE if sizes is None else asked
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
    """Return whether some time is a fraction, as only in lists after those of whole numbers."""
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
    to_the_mean = fill_to_mean(seconds, stages, 1)
    return first_true({
        "as many layers for each stage, or layers until the mean is reached: here, both give this. "
        "The slowest stage decides how fast a pipeline is: which limit is the lowest that all can "
        "keep?": sizes == even(len(seconds), stages) == to_the_mean,
        "as many layers for each stage as for the others: even_sizes does that. Layers take "
        "different times, and the slowest stage decides how fast a pipeline is":
            sizes == even(len(seconds), stages),
        "a stage takes layers as long as it stays below the mean, seconds / stages. So what is "
        "left over comes to the last one. The slowest stage may have to take more than the mean: "
        "which limit is the lowest that all can keep?": sizes == fill_to_mean(seconds, stages, 0),
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
    """Return the sizes with the smallest sum of squared times, found by trying all cuts."""
    ends = ((0, *of, len(seconds)) for of in combinations(range(1, len(seconds)), stages - 1))
    cuts = ([end - begin for begin, end in pairwise(of)] for of in ends)
    return min(cuts, key=lambda sizes: sum(time**2 for time in times_of(seconds, sizes)))


def fill_to_mean(seconds, stages, over) -> list[int]:
    """Fill stages one after another up to the mean time, and return their sizes.

    Each stage leaves a layer for every later one, and exceeds the mean only if `over` is 1.
    """
    sizes, mean, at = [], sum(seconds) / stages, 0
    for stage in range(stages - 1):
        end, last = at + 1, len(seconds) - (stages - 1 - stage)
        while end < last and sum(seconds[at : end + (not over)]) <= mean - over * 1e-9:
            end += 1
        sizes.append(end - at)
        at = end
    return [*sizes, len(seconds) - at]


def report_cut(trial) -> str:
    first, *others = read_results(trial)
    seconds, sizes = first.seconds, first.outcome.value
    if sizes is None:
        return "refused"
    if others:
        return f"{1 + len(others)} lists, no cut is better"
    slowest, mean = max(times_of(seconds, sizes)), sum(seconds) / len(sizes)
    return f"{sizes}, the slowest takes {slowest}, the mean is {mean:.4g}"


def explain_timeout(case, error):
    """Raise `Wrong` for an answer that was stopped, because check() takes no larger timeout."""
    if isinstance(error, HangError):
        at = error.waits[0] and f"\n  at {error.waits[0]}"
        what = f"it is too slow, and was stopped while still at work{at or ''}"
        raise Wrong(str(case), what, EVERY_CUT)

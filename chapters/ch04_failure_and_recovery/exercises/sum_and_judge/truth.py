"""The right results, and the results of known mistakes."""

import math

import torch

from .cases import REPLACED, flat_of

AT_LEAST = 10

IN_PLACE = (
    "flat has the numbers that it had: write the sum into it, as an all-reduce does. `flat = …` "
    "gives another tensor the name flat, in this function alone"
)

MEAN_OF_FLATS = "this is the mean: the gradients are summed, as each rank has divided by the batch"

OWN = (
    "each rank judges its own gradient. Ranks may then disagree, and those that take the step no "
    "longer have the weights of those that leave it out: judge the sum, which is the same on all"
)

NAN_PASSES = (
    "a step with NaN counts as sane. Any comparison with NaN is false, so that `norm > limit` is "
    "false, too: ask whether the norm is finite, or whether `norm <= limit`"
)

MEAN = (
    "one spike among the norms has moved the limit, and the next one passes: take the median, "
    "which a single norm does not move, and not the mean, the largest or the last"
)

TOO_EARLY = (
    "with fewer than AT_LEAST norms there is nothing to compare with yet: a finite norm is enough"
)

TOO_LATE = "with exactly AT_LEAST norms a step is already judged"

LOWER = (
    "of an even number of values, torch.median takes the lower of the two in the middle. The "
    "median is their mean, as `median` of the module statistics gives it"
)

UPPER = (
    "of an even number of values, this takes the upper of the two in the middle. The median is "
    "their mean, as `median` of the module statistics gives it"
)

NOT_SORTED = "norms is in the order of the steps: the median is in the middle of a sorted copy"

OTHER_MEDIAN = (
    "the limit is `times` the median of all earlier norms: not that of the last ones alone, or "
    "with this step's own norm, and no geometric mean"
)

STRICT = "a norm of exactly `times` the median is still sane"

OF_MEAN = "the norm of the mean over the ranks is judged; asked is the norm of the sum"

HALF = (
    "the norm is computed in float16, which ends at 65,504: the sum is finite, and its norm counts "
    "as infinite. Compute it in float32 at least: flat.norm(dtype=torch.float64)"
)

FOUR = "`times` says how much is too much; this takes 4 whatever it is"

NO_FINITE = (
    "with fewer than AT_LEAST norms every step counts as sane, but a norm that is infinite or NaN "
    "never is"
)

SPIKE_KEPT = (
    "the norm of a step that is not sane was appended to norms, too. Spikes then become usual, and "
    "a NaN makes every later comparison false"
)

NOT_KEPT = "norms has not grown: append the norm of a sane step, or nothing is ever usual"

NOT_WRITTEN = "the sum is not written into flat in a step that is not sane"

SORTED = "norms itself was sorted: it has the order of the steps, so sort a copy"

IN_FRONT = "the norm was put in front: append it"

NO_NORM = "this is not the norm of the sum, the root of the sum of its squares: flat.norm()"

ROUNDED = (
    "the norm is rounded: compute it in float32 at least, flat.norm(dtype=torch.float64), and "
    "append it as it is"
)

OWN_KEPT = (
    "this rank's own gradient was judged, and its norm appended. Ranks then have different norms, "
    "and may disagree: judge the sum"
)

SEPARATE = (
    "one all-reduce of flat is enough. All ranks have the same sum afterwards, to the last bit, "
    "and so the same norm: nothing else has to be agreed on"
)

ONLY_SOME = (
    "some ranks make a call that the others do not make. All ranks have to sum first, whatever "
    "their own gradients are, and judge afterwards"
)


def norm_of(numbers) -> float:
    numbers = numbers.tolist()
    if any(map(math.isnan, numbers)):
        return math.nan
    return math.hypot(*numbers)


def middle(values) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def lower(values) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def upper(values) -> float:
    return sorted(values)[len(values) // 2]


def middle_unsorted(values) -> float:
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def mean(values) -> float:
    return sum(values) / len(values)


def rule(norm, norms, times, usual=middle, at_least=AT_LEAST):
    limit = times * usual(norms) if len(norms) >= at_least else math.inf
    return norm <= limit and math.isfinite(norm)


def total(trial):
    kind, _, _, dtype = trial.case.args
    return sum(flat_of(rank, kind, dtype) for rank in range(trial.n))


def own(trial, place):
    kind, _, _, dtype = trial.case.args
    return flat_of(place, kind, dtype)


def summed(trial, place):
    return total(trial).nan_to_num(**REPLACED).double()


def mistakes_of_sum(trial, place):
    return {
        (IN_PLACE if is_sane(trial, place) else NOT_WRITTEN): own(trial, place)
        .nan_to_num(**REPLACED)
        .double(),
        MEAN_OF_FLATS: (total(trial) / trial.n).nan_to_num(**REPLACED).double(),
        "flat is all zeros: the gradients of a step that is not sane stay as they are": 0
        * summed(trial, place),
    }


def is_sane(trial, place) -> bool:
    _, norms, times, _ = trial.case.args
    return rule(norm_of(total(trial)), norms, times)


def mistakes_of_judgement(trial, place):
    _, norms, times, _ = trial.case.args
    norm, mine = norm_of(total(trial)), norm_of(own(trial, place))
    judged = len(norms) >= AT_LEAST
    limit = times * middle(norms) if judged else math.inf
    return {
        HALF: False if norm > torch.finfo(trial.case.args[3]).max else is_sane(trial, place),
        NO_FINITE: rule(norm, norms, times) if judged else True,
        NAN_PASSES: True if math.isnan(norm) else is_sane(trial, place),
        TOO_LATE: rule(norm, norms, times, at_least=AT_LEAST + 1),
        OTHER_MEDIAN: rule(norm, norms[-AT_LEAST:], times),
        MEAN: rule(norm, norms, times, mean),
        LOWER: rule(norm, norms, times, lower),
        UPPER: rule(norm, norms, times, upper),
        NOT_SORTED: rule(norm, norms, times, middle_unsorted),
        STRICT: is_sane(trial, place) and not (judged and norm == limit),
        TOO_EARLY: rule(norm, norms, times, at_least=1),
        FOUR: rule(norm, norms, 4.0),
        OWN: rule(mine, norms, times),
        OF_MEAN: rule(norm / trial.n, norms, times),
        NO_NORM: rule(norm**2, norms, times),
        "it is true in each step, and this one is not sane": True,
        "it is false, although this step is sane": False,
    }


def norms_after(trial, place):
    _, norms, _, _ = trial.case.args
    return [*norms, norm_of(total(trial))] if is_sane(trial, place) else list(norms)


def mistakes_of_norms(trial, place):
    _, norms, _, _ = trial.case.args
    norm, mine = norm_of(total(trial)), norm_of(own(trial, place))
    sane = is_sane(trial, place)
    new, numbers = [norm] * sane, total(trial)
    others = (numbers.abs().max(), numbers.norm(1), numbers.sum(), of_norms(trial))
    other = next((x for x in map(float, others) if x in trial[place].norms), norm)
    return {
        (NOT_KEPT if sane else SPIKE_KEPT): [*norms] if sane else [*norms, norm],
        OWN_KEPT: [*norms, mine] if sane else [*norms],
        OF_MEAN: [*norms, norm / trial.n],
        SORTED: [*sorted(norms), *new],
        IN_FRONT: [*new, *norms],
        NO_NORM: [*norms, other],
    }


def of_norms(trial) -> float:
    return math.hypot(*(norm_of(own(trial, place)) for place in range(trial.n)))


def is_norm_rounded(trial) -> str:
    """Return the diagnosis if the last norm of each rank is nearly right, else ""."""
    wanted = norms_after(trial, 0)
    found = trial.collect_values("norms")
    near = (len(of) == len(wanted) and abs(of[-1] - wanted[-1]) < 0.01 * wanted[-1] for of in found)
    return ROUNDED if all(near) else ""


def find_more_calls(trial):
    for place, calls in enumerate(trial.calls):
        made = [call.name for call in calls]
        if len(made) > 1:
            told = f"{trial.name_of_rank(place)} makes {len(made)} calls: {', '.join(made)}"
            yield f"the numbers are right, but {told:.80}", SEPARATE


def expect_bytes(trial, place):
    kind, _, _, dtype = trial.case.args
    numel = len(flat_of(place, kind, dtype))
    return 2 * (1 - 1 / trial.n) * numel * dtype.itemsize if kind == "large" else None

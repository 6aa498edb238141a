"""The right results, and the results of known mistakes."""

import math

import torch

from coursekit.kit import first_true

from .cases import flat_of

OWN = (
    "each rank looks at its own gradients. Only the rank with the NaN leaves the step out; the "
    "others add a NaN to their weights, because the all-reduce has brought it to them"
)

OVERFLOW = (
    "the gradients of each rank are finite, and their sum is not: float32 ends at 3.4e38. Look at "
    "the sum"
)

REPAIRED = (
    "other numbers take the place of those that are not finite, and the step is taken with a sum "
    "that is not the gradient of this batch. Leave out the step, on all ranks"
)

NOT_ALL = "a NaN in one place passes: all places of the sum have to be finite"

PASSES = "the step is taken on all ranks, although the sum is not finite: infinite is not finite"

NO_SUM = (
    "update has got this rank's own gradients, and not the sum: the ranks' weights go apart even "
    "without a NaN"
)

MEAN = "update gets the sum over the ranks; this is the mean"

ALWAYS = "all sums are finite in this step: it is to be taken, by all ranks"

EACH_IS_FINITE = (
    "each number of this sum is finite, although it is large. Their norm, or what they add up to, "
    "overflows: look at each of them"
)

TWICE = "update is called once in a step that is taken"

SAYS = "what is returned does not fit: True if the step was taken, and False if it was left out"

SEPARATE = (
    "a second collective in each step is not needed. After the all-reduce, all ranks have the same "
    "sum: they need not be asked whether it is finite"
)

ONLY_SOME = (
    "the rank with the NaN makes no all-reduce, and the others wait for it: sum first, on all "
    "ranks, and look at the sum afterwards"
)


def total_of(trial, step):
    return sum(flat_of(step, rank, trial.case.args[1]) for rank in range(trial.n))


def faults(trial):
    steps, dtype = trial.case.args
    totals = [total_of(trial, step) for step in steps]
    taken = [bool(total.isfinite().all()) for total in totals]
    for place in range(trial.n):
        for k, step in enumerate(steps):
            updates, said = trial[place].updates[k], trial[place].taken[k]
            told = f"{trial.name_of_rank(place)}, {step}"
            if updates > 1:
                yield f"{told}: update was called {updates} times", TWICE
            if updates != taken[k]:
                what = "the step was taken" if updates else "the step was left out"
                yield f"{told}: {what}", why(trial, step, updates)
            if said != taken[k]:
                yield f"{told}: {said} was returned", SAYS
    wanted = sum(
        (total for total, is_taken in zip(totals, taken) if is_taken), torch.zeros(3, dtype=dtype)
    )
    for place in range(trial.n):
        got = trial[place].weights
        if got != wanted.tolist():
            own = sum(flat_of(s, place, dtype) for s, is_taken in zip(steps, taken) if is_taken)
            mistake = first_true({
                NO_SUM: got == own.tolist(), MEAN: got == (wanted / trial.n).tolist(),
            })  # fmt: skip
            told = f"{trial.name_of_rank(place)}: the updates add up to {got}"
            yield f"{told}, expected {wanted.tolist()}", mistake


def why(trial, step, updates) -> str:
    dtype = trial.case.args[1]
    own = [bool(flat_of(step, rank, dtype).isfinite().all()) for rank in range(trial.n)]
    if not updates:
        return EACH_IS_FINITE if step == "large numbers" else ALWAYS
    everywhere = all(of.updates[trial.case.args[0].index(step)] for of in trial.found)
    clean = all(map(math.isfinite, trial[0].weights))
    return first_true({
        REPAIRED: everywhere and clean, OVERFLOW: all(own),
        NOT_ALL: everywhere and bool(total_of(trial, step).isnan().any()), PASSES: everywhere,
        OWN: not all(own),
    })  # fmt: skip


def find_more_calls(trial):
    for place, calls in enumerate(trial.calls):
        made = [call.name for call in calls]
        if len(made) > len(trial.case.args[0]):
            told = f"{trial.name_of_rank(place)} makes {len(made)} calls: {', '.join(made)}"
            yield f"the numbers are right, but {told:.80}", SEPARATE

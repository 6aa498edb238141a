"""The right results, and the results of known mistakes."""

from .cases import flat_of

IN_PLACE = (
    "flat has the numbers that it had: write the sum into it, as an all-reduce does. `flat = …` "
    "gives another tensor the name flat, in this function alone"
)

OWN_NOTICE = (
    "this rank's own notice is returned. Then some ranks stop after this step and the others go "
    "on, and wait for them in the next all-reduce"
)

ALL_OF_THEM = (
    "it says whether all ranks have been told. The signal may reach one rank alone, or one rank "
    "first: one that has been told is enough"
)

COUNTED = "a rank that has been told stops all: it need not be the only one, nor all of them"

SEPARATE = (
    "the notice travels separately. Each collective has its own latency, in every step of the "
    "training: let the notice be one more element of the tensor that travels anyway"
)

ONLY_SOME = (
    "some ranks make a call that the others do not make. No rank knows what another has been told: "
    "so all make the same calls, with or without a notice of their own"
)


def each_flat(trial):
    _, length, dtype = trial.case.args
    return [flat_of(rank, length, dtype) for rank in range(trial.n)]


def total(trial, place):
    return sum(each_flat(trial))


def mistakes_of_sum(trial, place):
    flats, told = each_flat(trial), trial.case.args[0]
    largest = flats[0].clone()
    for flat in flats[1:]:
        largest = largest.maximum(flat)
    return {
        IN_PLACE: flats[place],
        "this is the mean: the gradients are summed, as each rank has divided by the whole batch":
            total(trial, place) / trial.n,
        "this is the largest of each element: the gradients are summed": largest,
        "the notice is added to the gradients themselves: it needs an element of its own":
            total(trial, place) + len(told),
        "the sum of the notices is in flat, too: flat takes all elements but this one":
            total(trial, place).roll(1),
    }  # fmt: skip


def any_told(trial, place) -> bool:
    return bool(trial.case.args[0])


def mistakes_of_notice(trial, place):
    told = trial.case.args[0]
    return {
        OWN_NOTICE: place in told,
        ALL_OF_THEM: len(told) == trial.n,
        COUNTED: len(told) == 1,
        "it is true in each step: nobody has been told here": True,
        "it is false although a rank has been told": False,
    }


def find_more_calls(trial):
    for place, calls in enumerate(trial.calls):
        made = [call.name for call in calls]
        if len(made) > 1:
            told = f"{trial.name_of_rank(place)} makes {len(made)} calls: {', '.join(made)}"
            yield f"the numbers are right, but {told:.80}", SEPARATE


def expect_bytes(trial, place):
    _, length, dtype = trial.case.args
    large = length > 1000
    return 2 * (1 - 1 / trial.n) * (length + 1) * dtype.itemsize if large else None

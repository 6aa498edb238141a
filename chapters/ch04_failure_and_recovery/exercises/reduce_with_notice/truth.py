"""The right results, and the results of known mistakes."""

import torch

from .cases import LENGTH, flat_of

IN_PLACE = (
    "flat has the numbers that it had: write the sum into it, as an all-reduce does. `flat = …` "
    "gives another tensor the name flat, in this function alone"
)

OWN_NOTICE = (
    "this rank's own notice is returned. Then some ranks stop after this step and the others go "
    "on, and wait for them in the next all-reduce"
)

ALL_OF_THEM = (
    "it asks whether all ranks, or most of them, have been told. The signal may reach one rank "
    "alone, or one rank first: one that has been told is enough"
)

COUNTED = "a rank that has been told stops all: it need not be the only one, nor all of them"

SEPARATE = (
    "the notice travels separately. Each collective has its own latency, in every step of the "
    "training: let the notice be one more element of the tensor that travels anyway"
)

ONE_RANK = "dist.reduce gives the sum to one rank alone: the others have no sum, and no answer"

NO_ALL_REDUCE = (
    "asked is an all-reduce, which brings the sum to all ranks, and sends no more than twice what "
    "flat has, however many ranks there are"
)

NOT_FINITE = (
    "the gradients of this step are lost, although all ranks still need their sum: put the notice "
    "into an additional element"
)

OTHER_DTYPE = (
    "the tensor of the all-reduce has another dtype than flat: float32 has fewer digits than "
    "float64, and twice the bytes of bfloat16"
)

OTHER_LENGTH = "asked is one element more than flat has: each gradient, and the notice"

GROWN = (
    "flat has to keep its length: copy it into a longer tensor, in which the notice has an element"
)

ONLY_SOME = (
    "some ranks make a call that the others do not make. No rank knows what another has been told: "
    "so all make the same calls, with or without a notice of their own"
)


def each_flat(trial):
    dtype = trial.case.args[1]
    return [flat_of(rank, dtype).double() for rank in range(trial.n)]


def total(trial, place):
    return sum(each_flat(trial))


def mistakes_of_sum(trial, place):
    flats, told = each_flat(trial), trial.case.args[0]
    count = total(trial, place).new_tensor([float(len(told))])
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
        "flat begins with the sum of the notices: it takes all elements but this one":
            torch.cat([count, total(trial, place)[:-1]]),
        "flat ends with the sum of the notices: it takes all elements but this one":
            torch.cat([total(trial, place)[1:], count]),
    }  # fmt: skip


def why_flat(trial) -> str:
    return GROWN if any(len(found.flat) != LENGTH for found in trial.found) else ""


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


def find_other_calls(trial):
    """Yield a complaint about one collective that is no all-reduce."""
    for place, calls in enumerate(trial.calls if trial.n > 1 else ()):
        if len(calls) == 1 and calls[0].name != "all_reduce":
            why = ONE_RANK if calls[0].name == "reduce" else NO_ALL_REDUCE
            yield f"{trial.name_of_rank(place)} calls {calls[0].name}", why


def find_other_sizes(trial):
    """Yield a complaint about several calls, and about one that carries too little or too much."""
    size = trial.case.args[1].itemsize
    for place, calls in enumerate(trial.calls if trial.n > 1 else ()):  # alone, it costs nothing
        who, made = trial.name_of_rank(place), [call.name for call in calls]
        if len(calls) > 1:
            told = f"{who} makes {len(made)} calls: {', '.join(made)}"
            is_small = min(call.tensor_bytes for call in calls) <= 8
            yield f"the numbers are right, but {told:.80}", SEPARATE if is_small else NO_ALL_REDUCE
        for call in calls:
            elements = call.tensor_bytes / size
            if elements != LENGTH + 1:
                told = f"{who} gives {call.tensor_bytes} bytes to the all-reduce"
                is_near = abs(elements - LENGTH - 1) < 4
                why = OTHER_LENGTH if is_near else OTHER_DTYPE
                yield f"the numbers are right, but {told}, expected {(LENGTH + 1) * size}", why

"""The right results, and the results of known mistakes."""

import math

import torch

from coursekit.kit import Wrong

from .cases import copies_of, make_shards


def make_initial_gradients(trial) -> list[list[torch.Tensor]]:
    """Return the gradients of each rank before the call."""
    return [copies_of(make_shards(place, trial.case.args[0])) for place in range(trial.n)]


def numbers_of(gradients) -> list[float]:
    return [x for gradient in gradients for x in gradient.double().flatten().tolist()]


def length(numbers) -> float:
    return math.sqrt(math.fsum(x * x for x in numbers))


def lengths(trial) -> list[float]:
    return [length(numbers_of(gradients)) for gradients in make_initial_gradients(trial)]


def right_norm(trial, place) -> float:
    return length([x for gradients in make_initial_gradients(trial) for x in numbers_of(gradients)])


def wrong_norms(trial, place):
    own, n, right = lengths(trial), trial.n, right_norm(trial, place)
    each = [
        length(numbers_of([x])) for gradients in make_initial_gradients(trial) for x in gradients
    ]
    everything = [x for gradients in make_initial_gradients(trial) for x in numbers_of(gradients)]
    shards = [make_shards(place, trial.case.args[0]) for place in range(n)]
    weights = [x for of_rank in shards for x in numbers_of(of_rank)]
    trained = [x for x in weights if x != 9.0]
    return {
        "this is the norm of this rank's shards alone. Each rank would scale by another factor: "
        "the model's gradient would change its direction": own[place],
        "norms do not add up: squares do. Sum the squares over all ranks, and take the root once":
            sum(own),
        "norms of tensors do not add up, within a rank either: their squares do": sum(each),
        "this is a mean over the ranks. No rank has the same part twice: the squares add up":
            right / math.sqrt(n),
        "this is the mean of the ranks' norms. The squares of all ranks add up": sum(own) / n,
        "this is the largest norm of a rank. The squares of all ranks add up": max(own),
        "this is the sum of the squares: the norm is its root": right**2,
        "this is the sum of the absolute values: square the numbers, add up, take the root":
            math.fsum(abs(x) for x in everything),
        "this is the largest absolute value: square the numbers, add up, take the root":
            max((abs(x) for x in everything), default=0.0),
        "frozen parameters count here by their values. The norm is of gradients, and a frozen "
        "parameter has none": length([*everything, *[9.0] * (4 * n)]),
        "this is the norm of the parameters. What is clipped is the gradient": length(trained),
        "this is the norm of the parameters, with the frozen ones. What is clipped is the "
        "gradient": length(weights),
        "this is the norm after clipping. Return what it was before": min(
            right, trial.case.args[1]
        ),
    }  # fmt: skip


def scale_gradients(gradients, factor):
    return [gradient * factor for gradient in gradients]


def right_gradients(trial, place):
    factor = min(1.0, trial.case.args[1] / max(right_norm(trial, place), 1e-300))
    return scale_gradients(make_initial_gradients(trial)[place], factor)


def wrong_gradients(trial, place):
    own = make_initial_gradients(trial)[place]
    most = trial.case.args[1]
    norm = right_norm(trial, place)
    n, length_of_own = trial.n, lengths(trial)[place] or 1.0
    norm = norm or 1.0
    return {
        "the norm is above max_norm, and the gradients are as before: multiply them in place, "
        "p.grad *= …": own,
        "a gradient that is small enough is scaled up. Clipping only makes gradients smaller: "
        "leave them alone if the norm is not above max_norm": scale_gradients(own, most / norm),
        "each rank scales by its own norm. All ranks need the same factor, that of the whole "
        "norm": scale_gradients(own, min(1.0, most / length_of_own)),
        "each shard is scaled by its own norm: small gradients keep their size, and the direction "
        "changes. One factor for all": [
            x * min(1.0, most / (length(numbers_of([x])) or 1.0)) for x in own
        ],
        "the factor is applied twice": scale_gradients(own, min(1.0, most / norm) ** 2),
        "the gradients are divided by the norm, whatever max_norm is": scale_gradients(
            own, 1 / norm
        ),
        "each number is clamped by itself. That changes the direction: multiply all by one "
        "factor": [x.clamp(-most, most) for x in own],
        "the factor has the square of the norm in it: take the root first": scale_gradients(
            own, min(1.0, most / norm**2)
        ),
        "the limit is shared out among the ranks. max_norm is for the whole": scale_gradients(
            own, min(1.0, most / n / norm)
        ),
        "the factor has the root of max_norm in it": scale_gradients(
            own, min(1.0, most**0.5 / norm)
        ),
    }


def one_number(trial):
    for place, calls in enumerate(trial.calls):
        sent, who = sum(call.tensor_bytes for call in calls), trial.name_of_rank(place)
        if not calls:
            continue
        if len(calls) > 1:
            what = f"the numbers are right, but {who} makes {len(calls)} calls"
            raise Wrong(f"cost, {trial.case}", what, ONE_CALL)
        if sent > 8:
            what = f"the numbers are right, but {who} brings {sent} bytes to its call"
            raise Wrong(f"cost, {trial.case}", what, ONE_NUMBER)
    return f"cost, {trial.case}: one call, of one number" if trial.case.is_group else ""


ONE_CALL = (
    "one all-reduce is enough: add up the squares of all shards of the rank first. (And where "
    "ranks have different numbers of shards, a call for each of them would hang)"
)

ONE_NUMBER = (
    "one number of a rank is enough: the sum of its squares. Gradients themselves stay where they "
    "are"
)

NOT_FINITE = "the norm is 0 here, and 0 / 0 is nan. Scale only if the norm is above max_norm"

OVERFLOWS = (
    "a float16 ends at 65504, and the square of 256 is more. Square and add up in float32 or "
    "float64"
)

LOST = (
    "every rank has to take part in the all-reduce, also one without any gradient: its sum of "
    "squares is 0"
)

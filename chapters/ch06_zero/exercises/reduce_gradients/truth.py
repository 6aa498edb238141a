"""The right results, and the results of known mistakes."""

from math import prod

import torch

from .cases import CALLS, SHAPES, gradients_at, part_of

NO_GRADIENT = (
    "a parameter without a part in the loss has None in `.grad`: it counts as zeros. "
    "gradients_of(unit) gives them"
)

GLOO = (
    "Gloo's reduce_scatter is an all-reduce and a slice: it sends twice "
    "what your ring of exercise {{reduce_scatter_ring}} does"
)

PADDED = "the lengths differ. Gradients are padded as the parameters are: flatten_padded does it"


def flat_of(gradients, fill=None):
    """Return the gradients as one flat tensor, zeros for None; `fill` replaces their numbers."""
    sizes = [prod(shape) for shape in SHAPES]
    flat = torch.zeros(sum(sizes), dtype=torch.float64)
    for part, gradient in zip(flat.split(sizes), gradients):
        if gradient is not None:
            part += gradient.flatten() if fill is None else fill
    return flat


def sum_by_call(trial, of_call, keeps=1.0):
    """Return {call: the sum of of_call(flat gradient of each rank, number of ranks that have one)}.

    keeps  factor of the sum of earlier calls, before a call's result is added
    """
    found, before = {}, 0.0
    for number, call in enumerate(CALLS):
        local = [gradients_at(place, number) for place in range(trial.n)]
        have = sum(flat_of(of, 1.0) for of in local).clamp(min=1)
        flats = list(map(flat_of, local))
        found[call] = before = of_call(flats, have) + keeps * before
    return found


def mean_part(trial, place, of=None, keeps=1.0):
    k = place if of is None else of % trial.n
    return sum_by_call(trial, lambda flats, _: part_of(sum(flats) / trial.n, trial.n, k), keeps)


def mistakes(trial, place):
    n, case = trial.n, trial.case

    def part(of_call):
        return sum_by_call(trial, lambda flats, have: part_of(of_call(flats, have), n, place))

    if case.is_group:  # earlier cases, in whole worlds, were right
        return {
            "the sum is divided by the size of the world, but it has only the ranks of the group "
            "in it: unit.n": part(lambda flats, _: sum(flats) / case.world.size),
            "these are wrong chunks: unit.rank counts within the group, dist.get_rank() in the "
            "world": mean_part(trial, place, case.ranks[place]),
        }
    right = mean_part(trial, place)
    return {
        "this is the sum. The mean is the sum divided by n, of the group":
            part(lambda flats, _: sum(flats)),
        "it is divided by n twice: the mean, divided by n again":
            part(lambda flats, _: sum(flats) / n**2),
        "this is the rank's own gradient, nothing has been summed up: reduce_scatter_ring works in "
        "the chunks that it is given": part(lambda flats, _: flats[place]),
        "the rank's own gradient is divided by n, and nothing is summed up: reduce_scatter_ring "
        "works in the chunks that it is given": part(lambda flats, _: flats[place] / n),
        "this is zero: the gradients were let go of before they were put into the flat tensor":
            part(lambda flats, _: 0 * flats[0]),
        "it is divided by how many ranks have a gradient. One that has None counts, too: as zeros":
            part(lambda flats, have: sum(flats) / have),
        "everybody has chunk 0 of the mean: rank k gets chunk k": mean_part(trial, place, 0),
        "everybody has the next rank's chunk: rank k gets chunk k of the mean":
            mean_part(trial, place, place + 1),
        "everybody has the chunk of the rank before: rank k gets chunk k of the mean":
            mean_part(trial, place, place - 1),
        "this is the mean of this call alone: a gradient that was there before is lost. Each "
        "backward calls this, until the step: they add up": mean_part(trial, place, keeps=0.0),
        "what was in shard.grad is a mean already, and is divided by n once more: only what this "
        "call brings is a sum": mean_part(trial, place, keeps=1 / n),
        "the second call has changed nothing: what comes is added to what is there":
            dict.fromkeys(right, right["call 1"]),
    }  # fmt: skip


def why_not_given(trial, place) -> str:
    if all(None in of.part.values() for of in trial):
        return "the part of this rank goes into unit.shard.grad: that is where its optimizer looks"
    return (
        "other ranks have their parts, this one has taken none. It takes part whatever gradients "
        "it has: those that are missing count as zeros, gradients_of(unit) gives them"
    )


def why_left(trial, place) -> str:
    if any(x.any() for x in trial[place].left):
        return (
            "the gradients of the whole unit are still in memory. Who needs them? Set `.grad` of "
            "each parameter to None"
        )
    return (
        "a tensor of zeros takes as much memory as the gradient did: `.grad = None` lets go of it, "
        "zero_() does not"
    )

"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit import Wrong

from ..shared.meshes import lists_along
from .cases import SHAPES, gradient_of, trainable_names


def average_over_ranks(case, ranks, divide_by) -> dict:
    dtype = case.args[-1]
    return {
        name: sum(gradient_of(name, rank, dtype) for rank in ranks) / divide_by
        for name in trainable_names(case)
    }


def mine(trial, place, axes):
    return next(ranks for ranks in lists_along(axes, trial.case.args[0]) if place in ranks)


def mean(trial, place):
    ranks = mine(trial, place, "dp")
    return average_over_ranks(trial.case, ranks, len(ranks))


def mistakes(trial, place):
    sizes, ranks, case = trial.case.args[0], mine(trial, place, "dp"), trial.case
    others = {
        f"these are added up along {axis}: ranks there have other parameters, and their gradients "
        "do not belong together": average_over_ranks(case, mine(trial, place, axis), sizes[axis])
        for axis in ("tp", "pp")
    }
    return {
        "this is the sum over the copies. Each has the mean over its own samples, so the mean over "
        "all samples is the mean of these: divide by the number of copies": average_over_ranks(
            case, ranks, 1
        ),
        "this is divided by the number of all ranks. Only the copies of this rank's part are in "
        'the sum: there are mesh.sizes["dp"] of them': average_over_ranks(case, ranks, trial.n),
        "this rank's gradients are as they were: nobody has averaged them": average_over_ranks(
            case, [place], 1
        ),
        "these are divided, but not added up over the copies": average_over_ranks(
            case, [place], len(ranks)
        ),
        "all ranks of the world are in this mean. Other ranks have other parameters: only those of "
        'mesh["dp"] have the same ones': average_over_ranks(case, range(trial.n), trial.n),
        "all ranks of the world are in this sum. Other ranks have other parameters: only those of "
        'mesh["dp"] have the same ones': average_over_ranks(case, range(trial.n), len(ranks)),
        **others,
    }


def check_single_message(trial):
    sizes, *_, dtype = trial.case.args
    count = sum(torch.Size(SHAPES[name]).numel() for name in trainable_names(trial.case))
    most = 2 * (1 - 1 / sizes["dp"]) * dtype.itemsize * count
    for place, calls in enumerate(trial.calls):
        sent, who = sum(call.sent_bytes for call in calls), trial.name_of_rank(place)
        if len(calls) > 1:
            raise Wrong(
                f"cost, {trial.case}", f"the numbers are right, but {who} makes {len(calls)} calls",
                "each call takes a while, however small its tensor is. Put all gradients into one "
                "flat tensor, and make one all-reduce of that",
            )  # fmt: skip
        if sent > most:
            raise Wrong(
                f"cost, {trial.case}", f"the numbers are right, but {who} sends {sent:.0f} bytes; "
                f"an all-reduce over dp {most:.0f}",
                "an all-reduce sends less than if everybody gets everything, and adds it up",
            )  # fmt: skip
    return ""


NOTHING = "it may be that no parameter has a gradient: then there is nothing to average"

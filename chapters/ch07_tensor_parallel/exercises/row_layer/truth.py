"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.diagnoses import format_numbers, kind_of
from pedagogy_lib.basics.closeness import close

from .cases import inputs, slope_of

ONE_RANKS_BIAS = (
    "y has the bias once, as it should; but every rank has a copy of it, and only one rank's copy "
    "learns. From the first step on they differ, and so does what each rank would save. On every "
    "rank it has to have a part in y"
)


def y_of(trial, place):
    n, all_of = trial.n, [inputs(rank, *trial.case.args) for rank in range(trial.n)]
    products, bias = [of["x"] @ of["weight"].T for of in all_of], all_of[0]["bias"]
    total = sum(products)
    return total + bias, {
        "with 1 rank it is right, and each further rank makes it worse by as much. Write down for "
        "2 ranks what each of them computes, and what the all-reduce makes of it": total + n * bias,
        "there is no bias in y any more": total,
        "the bias is in y twice: its shares are in the sum, and all of it comes once more behind "
        "it": total + 2 * bias,
        "only a share of the bias is in y: what is added behind the sum is added once":
            total + bias / n,
        "rank 0 alone has added the bias. y is the same on all ranks: each of them adds it":
            total + (place == 0) * bias,
        "the ranks' products are summands of y: they are to be added, not averaged":
            total / n + bias,
        "each rank has what comes from its own inputs: nobody has added that up":
            products[place] + bias,
    }  # fmt: skip


def every_row(trial, place) -> str:
    got, wanted = trial[place].y, y_of(trial, place)[0]
    if got.shape != wanted.shape:
        return f"{trial.name_of_rank(place)}: y is {kind_of(got)}, expected {kind_of(wanted)}"
    rows = (got - wanted).flatten(0, -2)
    if not close(rows, rows[:1].expand_as(rows)):
        return f"{trial.name_of_rank(place)}: y is off by up to {rows.abs().max():.4g}"
    told = f"every row of y is off by the same numbers: {format_numbers(rows[0])}"
    return f"{trial.name_of_rank(place)}: {told}"


def gradients_of(trial, place):
    n, slope = trial.n, slope_of(*trial.case.args)
    all_of = [inputs(rank, *trial.case.args) for rank in range(n)]
    x, bias = [slope @ of["weight"] for of in all_of], slope.flatten(0, -2).sum(0)
    weight = torch.einsum("...o,...i->oi", slope, all_of[place]["x"])
    wanted = {"x": x[place], "weight": weight, "bias": bias}
    of_bias = {
        "the bias has no part in y that autograd knows of: on no rank will it learn": None,
        "a part of the bias on each rank makes y right, but autograd knows that it is a part: each "
        "rank has 1/n of the gradient, and the bias learns more slowly than in one process":
            bias / n,
        ONE_RANKS_BIAS: None if place else bias,
        f"{ONE_RANKS_BIAS}. The others' gradient is zero": (place == 0) * bias,
        "from y on all ranks compute the same, so each has the bias's whole gradient already. "
        "Added up over the ranks, as in the backward of Copy, it is n times too large": n * bias,
        "y has the bias once, but on its way to y it is added and taken away again: autograd "
        "counts how often it goes in on this rank, and that is not once": (2 - n) * bias,
    }  # fmt: skip
    return wanted, {why: wanted | {"bias": wrong} for why, wrong in of_bias.items()} | {
        "a sum behind the forward's sum: from y on all ranks compute the same, so each has y's "
        "whole gradient already. Added up again it is n times too large (as torch.distributed.nn "
        "does it)": wanted | {"x": n * x[place], "weight": n * weight},
        "the ranks' gradients of x have been added up, but each rank has inputs of its own: x is "
        "in the parallel region already, and needs no Copy": wanted | {"x": sum(x)},
    }  # fmt: skip

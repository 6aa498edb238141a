"""A row layer of which each rank adds 1/n of the bias. The truth is one process."""

import torch
import torch.distributed as dist

from coursekit.kit import At, World
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.diagnoses import kind_of, told
from coursekit.kit.forward_backward import as_one_process, right
from coursekit.kit.message_costs import Counted
from pedagogy_lib.basics.closeness import close

FINDS_A_BUG = True

INPUTS, OUTPUTS = 2, 3  # inputs of each rank
ONE_RANKS_BIAS = (
    "y has the bias once, as it should; but every rank has a copy of it, and only one rank's copy "
    "learns. From the first step on they differ, and so does what each rank would save. On every "
    "rank it has to have a part in y"
)


def inputs(rank, lead) -> dict:
    """lead  the dims of x before its inputs"""
    draw = lambda rank, salt, *shape: numbers(rank, shape, torch.float64, salt) / 3  # noqa: E731
    return {
        "x": draw(rank, 0, *lead, INPUTS),
        "weight": draw(rank, 1, OUTPUTS, INPUTS),
        "bias": draw(0, 2, OUTPUTS),
    }


def slope_of(lead):
    """All ranks have the same slope of y: they compute the same loss from it."""
    return numbers(0, (*lead, OUTPUTS), torch.float64, 3)


def prepare(answer, case):
    leaves = {name: x.requires_grad_() for name, x in inputs(dist.get_rank(), *case.args).items()}
    return lambda: answer(*leaves.values()), leaves, slope_of(*case.args)


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
        return f"{trial.who(place)}: y is {kind_of(got)}, expected {kind_of(wanted)}"
    rows = (got - wanted).flatten(0, -2)
    if not close(rows, rows[:1].expand_as(rows)):
        return f"{trial.who(place)}: y is off by up to {rows.abs().max():.4g}"
    return f"{trial.who(place)}: every row of y is off by the same numbers: {told(rows[0])}"


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


EXERCISE = as_one_process(
    "row_layer",
    cases=[
        At(World(n), (lead,), f", x {[*lead, INPUTS]}")
        for n, lead in [(1, (3,)), (2, (3,)), (2, (2, 2)), (3, (2, 2))]
    ],
    prepare=prepare,
    y=right("y", y_of, tells=every_row),
    gradients=gradients_of,
    needs=("all_reduce",),
    more=[
        Counted(lambda trial: 0, "a backward sends",
                "a part of the bias goes into the sum from every rank, and its gradient has to be "
                "put together again. Behind the sum each rank can add the whole bias: it has y's "
                "gradient already, and nothing is sent in the backward", "backward"),
    ],
    hints=(
        "Take 2 ranks, one sample, and a bias of 10. Each rank adds 5 before the all-reduce. If "
        "the bias grows by 1 on one rank, by how much does the output grow? In one process it "
        "grows by 1.",
        "The products are summands, and have to be added up; the bias is there once. A share of "
        "the bias on each rank makes the forward right, and the backward wrong.",
        "Leave the bias out of F.linear. What has left the parallel region is the same on all "
        "ranks: there every rank adds the whole bias.",
    ),
)  # fmt: skip

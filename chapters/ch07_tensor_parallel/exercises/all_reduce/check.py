"""The exit from the parallel region: exercise AllReduce."""

import torch

from ..shared.regions_truth import region


def y_of(given, place):
    n, total = len(given), sum(of.x for of in given)
    return total, {
        "nothing is added up: each rank has its own summand still. dist.all_reduce is the "
        "forward's work here; the other way round is Copy": given[place].x,
        "the mean, not the sum: each rank has a summand": total / n,
    }


def gradient_of(given, place):
    n, own = len(given), given[place].through  # the slope behind the sum is the same on all ranks
    return own, {
        "x gets no gradient: backward returns None for it": None,
        "n times too much: the backward adds up, too, as that of torch.distributed.nn does. But "
        "behind the sum all ranks compute the same, so each has all of the gradient already":
            n * own,
        "one rank alone gets the gradient, the others zeros: the derivative of a sum by each of "
        "its parts is 1, and each rank has a part": own if place == 0 else torch.zeros_like(own),
        "1/n of it: the derivative of a sum by each of its parts is 1": own / n,
    }  # fmt: skip


EXERCISE = region(
    "AllReduce", "forward", y_of, gradient_of,
    when_right=("the sum over these ranks", "the gradient as it comes, nothing sent"),
    touched="x belongs to the caller, and what came before may have kept it for its backward: give "
    "dist.all_reduce a copy",
    memory="the sum is to be in a new tensor, also where there is one rank alone: x belongs to "
    "those who computed it",
    sent="behind the sum all ranks compute the same, so each has the gradient already: the mean of "
    "equal ones, or any other message, is for nothing",
    hints=(
        "Where does a sum appear, in the forward or in the backward? Which of the two has "
        "nothing to do?",
        "`total` returns the sum in a new tensor; backward needs nothing from forward.",
        "backward returns the gradient as it comes, and a None for each of the other two "
        "arguments of forward.",
    ),
)  # fmt: skip

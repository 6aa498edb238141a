"""The right results, and the results of known mistakes."""

import torch.nn.functional as F

from coursekit.kit import Equals

from .cases import ONCE, operands, pop_gradients

NOT_FLAT = (
    "x may have several dims before the inputs. For the gradient of A all of them are rows: "
    "flatten(0, -2) makes one dim of them, in x and in the gradient; b's is the sum over all rows"
)


def compute_own_gradients(trial, place) -> dict:
    """Return the gradients that come only through a rank's own part."""
    tensors, slope = operands(place, trial.case)
    (F.linear(*tensors) * slope).sum().backward()
    return pop_gradients(tensors)


def gradient_of(name) -> Equals:
    """Return the fact about a gradient: a sum over the ranks for x, the rank's own for A and b."""

    def total(trial):
        every = [compute_own_gradients(trial, place)[name] for place in range(trial.n)]
        return None if every[0] is None else sum(every)

    def wrong(trial, place):
        own, summed = compute_own_gradients(trial, place)[name], total(trial)
        if own is None:
            return {}
        if name != "x":
            return {
                f"the gradient of {name} is missing, and it is not frozen": None,
                f"the gradient of {name} is summed over the ranks. {ONCE}": summed,
                f"divided by n; {ONCE}": own / trial.n,
            }
        return {
            "x has no gradient. The sum is in the tensor that begin got, in place: that is what is "
            "returned; the function that waits returns nothing": None,
            "this is the part that comes through this rank's A alone. begin adds up in place: "
            "return the tensor that it got, not another one": own,
            "this is the mean: x is one tensor, the same on all ranks, and its gradient the sum":
                summed / trial.n,
            "the sum is counted n times": trial.n * summed,
        }  # fmt: skip

    def right(trial, place):
        return total(trial) if name == "x" else compute_own_gradients(trial, place)[name]

    return Equals(name, right, wrong, f"the gradient of {name}")


def positions(events, event) -> list[int]:
    return [number for number, each in enumerate(events) if each == event]


def report_trial(trial) -> str:
    what = {"x": "", "A": "; x's is summed", "A and b": "; x's is summed"}
    travels = "; x's travels while A's is computed"
    return f"the gradients{what.get(trial.case.args[2], travels)}"

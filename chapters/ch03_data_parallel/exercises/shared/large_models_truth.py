"""The right results for large_models.py, and the results of known mistakes."""

from functools import cache

import torch

from coursekit.kit import Equals, Wrong
from coursekit.kit.message_costs import TOLERANCE
from pedagogy_lib.basics.closeness import relative_gap

from .large_models import layers_of, summarise_tensors

NOT_ALL = 1e-3  # skipped, cut or mixed-up values are off by more, rounded ones by far less

NOT_THE_LARGE = (
    "with small tensors it was right, and with large ones it is not: are some of them passed over, "
    "is only a part of a tensor averaged, or is it rounded on its way?"
)

PAST_THE_RANKS = (
    "the numbers have come another way, such as a file. Machines need not share their disks: "
    "everything has to travel through torch.distributed"
)


@cache
def compute_known_layers(place, loss_fn, number=1) -> dict:
    """Return the parts of the right answer in `cost_of_layers`; see `known` of RankExercise."""
    model, pieces = layers_of(place, number)
    names, parameters = zip(*model.named_parameters())
    loss = sum(loss_fn(model(inputs), targets) for inputs, targets in pieces) / number
    own = dict(zip(names, torch.autograd.grad(loss, parameters)))
    return {"large_bytes": sum(p.nbytes for p in parameters), "large_own": summarise_tensors(own)}


def nearly(got, wanted) -> bool:
    """Return whether two sums, or all sums by name, are equal up to NOT_ALL."""
    if isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(nearly(got[k], wanted[k]) for k in wanted)
    if got is None or wanted is None:
        return got is wanted
    return relative_gap(got, wanted) <= NOT_ALL


def mean_of_large(trial, place):
    """Return the mean of all ranks' initial values."""
    own = trial.collect_values("large_own")
    return {name: x if x is None else sum(of[name] for of in own) / trial.n
            for name, x in own[0].items()}  # fmt: skip


def right_if_large(truth=mean_of_large, what="`.grad`") -> Equals:
    def describe_wrong_gradient(trial, place):
        wanted, found = truth(trial, place), trial[place].large
        wrong = next(name for name in wanted if not nearly(found.get(name), wanted[name]))
        return f"{trial.name_of_rank(place)}, a large model: {what} of {wrong} is wrong"

    return Equals(
        "large", truth, otherwise=NOT_THE_LARGE, same=nearly, tells=describe_wrong_gradient
    )


class Travels:
    """A fact: ranks send at least this in all, so their results have not come another way.

    least  takes a trial and a place and returns bytes
    """

    def __init__(self, least):
        self.least = least

    def __call__(self, trial):
        if trial.collect_values("large") is None:
            return
        least = [self.least(trial, place) for place in range(trial.n)]
        sent, needed = sum(trial.sent_bytes), sum(least)
        if sent < needed * (1 - TOLERANCE):
            what = f"all ranks together send {sent:,} bytes; for that, {needed:,.0f} have to travel"
            raise Wrong(f"cost, {trial.case}", f"the numbers are right, but {what}", PAST_THE_RANKS)

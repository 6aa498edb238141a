"""The right results, and the results of known mistakes."""

from itertools import accumulate

import torch

from .cases import slope_of, x_of

HANG = (
    "all ranks of the group make the all-to-all, also one that sends no rows, and receives none; "
    "and all make it in the backward as well"
)

OTHER_LENGTHS = (
    "in the backward everything goes the other way: a rank sends gradients for what it received, "
    "and gets them for what it sent. So the two lists change places"
)


def rows_for(place, case, tensor_of, sends) -> torch.Tensor:
    """Return the rows that a rank receives, in rank order, if the ranks send so many rows."""
    pieces = []
    for source, row in enumerate(sends):
        first = list(accumulate(row, initial=0))[place]
        pieces.append(tensor_of(source, case)[first : first + row[place]])
    return torch.cat(pieces)


def back_of(sends):
    """Return how many rows each rank sends to each rank in the backward."""
    return [list(column) for column in zip(*sends)]


def forward(trial, place):
    sends, *_ = trial.case.args
    mine, back = x_of(place, trial.case), back_of(sends)
    received = rows_for(place, trial.case, x_of, sends)
    wrong = {"these are the rank's own rows: nothing has travelled": mine}
    if sorted(map(sum, sends)) == sorted(map(sum, back)):
        wrong["the rows come in the order of the ranks, the group's first rank first"] = torch.cat(
            list(reversed(received.split([row[place] for row in sends])))
        )
    return received, wrong


def backward(trial, place):
    sends, *_ = trial.case.args
    slope = slope_of(place, trial.case)
    gradient = rows_for(place, trial.case, slope_of, back_of(sends))
    wrong = {
        "gradients have to travel, too: those of a rank's rows are on the ranks that got them":
            slope if slope.shape == gradient.shape else torch.zeros(0),
        "no gradient came back: backward has to return one for x":
            None,
        "each row is on one rank only, so nothing has to be divided or added up":
            gradient / trial.n,
    }  # fmt: skip
    return {"x": gradient}, {why: {"x": value} for why, value in wrong.items()}


def calls_are_few(trial):
    for place, of in enumerate(trial):
        for which in ("forward", "backward"):
            made = getattr(of, which, [])
            if not made and trial.n > 1:
                yield f"{trial.name_of_rank(place)} makes no call in the {which}", HANG
            if len(made) > 1 + (trial.case.args[-1] and which == "forward"):
                names = ", ".join(call.name for call in made)
                yield (
                    f"{trial.name_of_rank(place)}: calls in the {which}: {names}",
                    "one all-to-all is enough",
                )
        if of.lists:
            yield (
                f"{trial.name_of_rank(place)}: send or receive has changed",
                "the lists are the caller's",
            )


def describe_success(trial) -> str:
    return "rows there, gradients back; an all-to-all each"

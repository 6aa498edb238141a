"""Rows that go to other ranks, and gradients that come back: uneven, forward and backward."""

from itertools import accumulate

import torch
import torch.distributed as dist

from ..kit import GROUP, At, RankExercise, World, complains, never
from ..kit.both_ways import (
    ALL_KNOWN,
    NOT_CONSTANT,
    autograd_function,
    both_ways,
    right,
    which_gradients,
)
from ..kit.trials import numbers, turned

HANG = (
    "all ranks of the group make the all-to-all, also one that sends no rows, and receives none; "
    "and all make it in the backward as well"
)
OTHER_LENGTHS = (
    "in the backward everything goes the other way: a rank sends gradients for what it received, "
    "and gets them for what it sent. So the two lists change places"
)


def x_of(place, case) -> torch.Tensor:
    """Its numbers do not lie one after another."""
    sends, of_row, _ = case.args
    return turned(numbers(place, (sum(sends[place]), *of_row), torch.float64))


def slope_of(place, case) -> torch.Tensor:
    """The gradient of what came; likewise."""
    sends, of_row, _ = case.args
    return turned(numbers(place, (sum(row[place] for row in sends), *of_row), torch.float64, 7))


def rows_for(place, case, tensor_of, sends) -> torch.Tensor:
    """What comes to a rank, in the order of the ranks, if they send so many rows."""
    pieces = []
    for source, row in enumerate(sends):
        first = list(accumulate(row, initial=0))[place]
        pieces.append(tensor_of(source, case)[first : first + row[place]])
    return torch.cat(pieces)


def back_of(sends):
    """Who sends how much in the backward."""
    return [list(column) for column in zip(*sends)]


def exchange(answer, group, case):
    sends, _, twice = case.args
    function, place = autograd_function(answer), dist.get_rank(group)
    x = x_of(place, case).requires_grad_()
    receive = [row[place] for row in sends]
    lists = list(sends[place]), list(receive)

    def go():
        y = function.apply(x, *lists, group)
        if twice:  # another exchange, before the backward of the first one
            even = [1] * len(sends)
            function.apply(x.new_ones(len(sends), 2).requires_grad_(), even, even, group)
        return y

    found = both_ways(go, {"x": x}, slope_of(place, case))
    return found | {"lists": lists != (sends[place], receive)}


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
                yield f"{trial.who(place)} makes no call in the {which}", HANG
            if len(made) > 1 + (trial.case.args[-1] and which == "forward"):
                names = ", ".join(call.name for call in made)
                yield (
                    f"{trial.who(place)}: calls in the {which}: {names}",
                    "one all-to-all is enough",
                )
        if of.lists:
            yield f"{trial.who(place)}: send or receive has changed", "the lists are the caller's"


TWICE = "two exchanges, and then the backward of the first one"


def told(trial) -> str:
    return "rows there, gradients back; an all-to-all each"


EXERCISE = RankExercise(
    "9.19",
    "Exchange",
    lab="expert_parallel",
    cases=[
        At(World(n), (sends, of_row, what == TWICE), f", {what}")
        for n, sends, of_row, what in [
            (2, [[2, 2], [2, 2]], (3,), "all the same"),
            (2, [[1, 2], [3, 1]], (3,), "rows of uneven number"),
            (3, [[0, 2, 1], [1, 1, 3], [2, 0, 1]], (3,), "rows of uneven number, some none"),
            (3, [[2, 1, 1], [0, 0, 0], [1, 0, 2]], (5,), "one sends nothing"),
            (3, [[1, 0, 2], [2, 0, 1], [1, 0, 1]], (3,), "one gets nothing"),
            (2, [[1, 2], [3, 1]], (2, 3), "rows of 2 × 3 numbers"),
            (2, [[1, 2], [3, 1]], (), "rows of one number"),
            (3, [[1, 0, 2], [0, 0, 0], [1, 0, 1]], (3,), "one sends nothing and gets nothing"),
            (2, [[1, 2], [3, 1]], (3,), TWICE),
            (1, [[3]], (3,), "its own rows"),
        ]
    ] + [At(GROUP, ([[1, 2, 0], [0, 1, 2], [3, 0, 1]], (3,), False), ", rows of uneven number")],
    work=exchange,
    facts=[
        never("changed", "{0[0]} has changed", "the caller still needs x as it was"),
        never("slope_changed", "the gradient that came has changed",
              "others may still need it: change a tensor of your own"),
        NOT_CONSTANT,
        right("y", forward, called="y"),
        right("gradients", backward,
              tells=lambda trial, place: which_gradients(backward, trial, place)),
        ALL_KNOWN,
        complains(calls_are_few),
    ],
    told=told,
    errors={
        "returned an incorrect number of gradients": "backward returns one value for each argument "
        "of forward: a gradient for x, None for the others",
        "returned an invalid gradient": OTHER_LENGTHS,
        "Split sizes": OTHER_LENGTHS,
        "split sizes": OTHER_LENGTHS,
        "invalid tensor size": "rows of uneven number go by exchanged(…), of the lab: "
        "dist.all_to_all_single with both lists",
        "must be contiguous": "what goes into an all-to-all lies in one piece: x.contiguous()",
        "has no attribute 'send'": "keep in ctx, in the forward, what the backward needs",
    },
    lost=HANG,
    hints=(
        "exchanged(x, send, receive, group) of the lab is the forward. What does the backward need "
        "to know?",
        "Keep send, receive and group in ctx. In the backward each row's gradient goes back to "
        "where the row came from: who sends how many then?",
        "backward returns four values: the gradient of x, and three times None.",
    ),
)  # fmt: skip

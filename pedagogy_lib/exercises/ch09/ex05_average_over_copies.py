"""The mean of gradients over the copies of a model, on a mesh, in one all-reduce."""

import torch
import torch.distributed as dist
from torch import nn

from ...course.checking import Wrong
from ..kit import At, Equals, RankExercise, World, answering, never
from ..kit.requests import AllRequests
from ..kit.trials import numbers, turned
from .meshes import SmallMesh, in_words, lists_along

SHAPES = {"matrix": (4, 3), "row": (5,), "number": (), "frozen": (2, 2), "cube": (2, 1, 3)}
FROZEN, ALL = ("frozen",), tuple(SHAPES)  # without gradients
JOINT = (("pp", "tp"),)


def gradient_of(name, place, dtype=torch.float64) -> torch.Tensor:
    shape = SHAPES[name]
    drawn = numbers(place, shape, dtype, [*SHAPES].index(name))
    return turned(drawn) if len(shape) > 1 else drawn


def average(answer, group, case):
    sizes, names, frozen, dtype = case.args
    mesh, place = SmallMesh(sizes, JOINT), dist.get_rank()
    parameters = {name: nn.Parameter(torch.ones(SHAPES[name], dtype=dtype)) for name in names}
    for name in learning(case):
        parameters[name].grad = gradient_of(name, place, dtype)
    with answering(), AllRequests() as requests:
        answer(list(parameters.values()), mesh)
        requests.need_waited()
    return {
        "frozen": any(parameters[name].grad is not None for name in frozen),
        "weights": not all(p.detach().eq(1).all() for p in parameters.values()),
        "gradients": {name: parameters[name].grad for name in learning(case)},
    }


def learning(case) -> list[str]:
    """The parameters that have gradients."""
    _, names, frozen, _ = case.args
    return [name for name in names if name not in frozen]


def over(case, ranks, divide_by) -> dict:
    dtype = case.args[-1]
    return {
        name: sum(gradient_of(name, rank, dtype) for rank in ranks) / divide_by
        for name in learning(case)
    }


def mine(trial, place, axes):
    return next(ranks for ranks in lists_along(axes, trial.case.args[0]) if place in ranks)


def mean(trial, place):
    ranks = mine(trial, place, "dp")
    return over(trial.case, ranks, len(ranks))


def mistakes(trial, place):
    sizes, ranks, case = trial.case.args[0], mine(trial, place, "dp"), trial.case
    others = {
        f"these are added up along {axis}: ranks there have other parameters, and their gradients "
        "do not belong together": over(case, mine(trial, place, axis), sizes[axis])
        for axis in ("tp", "pp")
    }
    return {
        "this is the sum over the copies. Each has the mean over its own samples, so the mean over "
        "all samples is the mean of these: divide by the number of copies": over(case, ranks, 1),
        "this is divided by the number of all ranks. Only the copies of this rank's part are in "
        "the sum: there are mesh.sizes[\"dp\"] of them": over(case, ranks, trial.n),
        "this rank's gradients are as they were: nobody has averaged them": over(case, [place], 1),
        "these are divided, but not added up over the copies": over(case, [place], len(ranks)),
        "all ranks of the world are in this mean. Other ranks have other parameters: only those of "
        "mesh[\"dp\"] have the same ones": over(case, range(trial.n), trial.n),
        "all ranks of the world are in this sum. Other ranks have other parameters: only those of "
        "mesh[\"dp\"] have the same ones": over(case, range(trial.n), len(ranks)),
        **others,
    }  # fmt: skip


def in_one_message(trial):
    sizes, *_, dtype = trial.case.args
    count = sum(torch.Size(SHAPES[name]).numel() for name in learning(trial.case))
    most = 2 * (1 - 1 / sizes["dp"]) * dtype.itemsize * count
    for place, calls in enumerate(trial.calls):
        sent, who = sum(call.sent_bytes for call in calls), trial.who(place)
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

EXERCISE = RankExercise(
    "9.5",
    "average_over_copies",
    lab="three_dimensions",
    cases=[
        At(World(n), (sizes, names, frozen, dtype), f", {in_words(sizes)}{what}")
        for n, sizes, names, frozen, dtype, what in [
            (4, {"dp": 2, "pp": 1, "tp": 2}, ALL, FROZEN, torch.float64, ""),
            (4, {"dp": 2, "pp": 2, "tp": 1}, ALL[::-1], FROZEN, torch.float64, ""),
            (3, {"dp": 3, "pp": 1, "tp": 1}, ALL[3:], FROZEN, torch.float32, ", in float32"),
            (2, {"dp": 1, "pp": 1, "tp": 2}, ALL[:3], (), torch.float64, ""),
            (2, {"dp": 2, "pp": 1, "tp": 1}, ALL, ALL, torch.float64, ", no gradient at all"),
        ]
    ],
    work=average,
    facts=[
        Equals("gradients", mean, mistakes, "the gradients"),
        never("frozen", lambda _: "a gradient that was None is a tensor now",
              "a frozen parameter has no gradient, in any copy, and gets none"),
        never("weights", lambda _: "the parameters themselves have changed",
              "only p.grad is to change: the optimizer takes the step"),
        in_one_message,
    ],
    told="each rank has the mean over the copies of its part",
    errors={
        "'NoneType'": "a frozen parameter has no gradient: its `.grad` is None. Leave it out",
        "view size is not compatible": "a gradient's numbers need not lie one after another in "
        "memory: reshape copies where view fails",
        "list index out of range": NOTHING,
        "expected a non-empty": NOTHING,
        "zero-dimensional tensor": "a gradient may be a single number, without a dimension: "
        "reshape(-1) makes a row of it",
    },
    lost="all ranks of a dp group call the all-reduce, with as many numbers",
    hints=(
        "Which ranks have a gradient of the same parameters? Their group is mesh[\"dp\"].",
        "torch.cat of all gradients, reshaped to rows; one all-reduce; divide; split it again into "
        "pieces of the old sizes.",
    ),
)  # fmt: skip

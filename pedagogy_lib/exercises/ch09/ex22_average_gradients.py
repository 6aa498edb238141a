"""Gradients of experts that are on some ranks, and of all else, which is on every rank."""

import torch
import torch.distributed as dist
from torch import nn

from ..kit import At, Equals, RankExercise, World, answering, complains
from ..kit.requests import AllRequests
from ..kit.trials import numbers
from .meshes import SmallMesh, in_words, lists_along

FINDS_A_BUG = True

JOINT = (("edp", "ep"),)
SHAPES = {"attention": (3, 4), "up": (2, 4), "router": (5,), "down": (4, 2), "proj": (4, 2)}
OF_EXPERTS = ("up", "down", "bias")
SHAPES["bias"] = (3,)
ORDER, TURNED = tuple(SHAPES), tuple(SHAPES)[::-1]


def gradient_of(name, place) -> torch.Tensor:
    return numbers(place, SHAPES[name], torch.float64, [*SHAPES].index(name))


def average(answer, group, case):
    mesh, place, parameters = SmallMesh(case.args[0], JOINT), dist.get_rank(), []
    for name in case.args[1]:
        p = nn.Parameter(torch.ones(SHAPES[name], dtype=torch.float64))
        p.grad = gradient_of(name, place)
        if name in OF_EXPERTS:
            p.is_of_expert = True
        parameters.append(p)
    with answering(), AllRequests() as requests:
        answer(parameters, mesh)
        requests.need_waited()
    changed = not all(p.detach().eq(1).all() for p in parameters)
    grads = zip(case.args[1], (p.grad for p in parameters))
    return {"changed": changed, "gradients": dict(grads)}


def over(trial, place, of_experts, of_others) -> dict:
    """Sums over these axes, each divided by a number."""
    sizes, found = trial.case.args[0], {}
    for name in trial.case.args[1]:
        axes, divisor = of_experts if name in OF_EXPERTS else of_others
        ranks = next(r for r in lists_along(axes, sizes) if place in r) if axes else [place]
        found[name] = sum(gradient_of(name, rank) for rank in ranks) / divisor
    return found


def truth(trial, place):
    return over(trial, place, ("edp", trial.n), (("edp", "ep"), trial.n))


def mistakes(trial, place):
    n, sizes = trial.n, trial.case.args[0]
    others, all_axes = (("edp", "ep"), n), ("edp", "ep")
    return {
        "an expert's gradient is divided by the number of its copies. But all ranks of its group "
        "have sent tokens to it, and their gradients are in it already, as a sum: the mean over "
        "all samples is that sum, divided by all ranks":
            over(trial, place, ("edp", sizes["edp"]), others),
        "experts are added up over all ranks. Along ep the ranks have different experts, whose "
        "gradients do not belong together": over(trial, place, (all_axes, n), others),
        "experts are added up along ep. There, ranks have different experts; the copies of one "
        "expert are along edp": over(trial, place, ("ep", n), others),
        "what is on every rank is averaged over its edp group alone: all ranks have samples of "
        "their own": over(trial, place, ("edp", n), ("edp", sizes["edp"])),
        "what is on every rank is added up over its edp group alone: all ranks have samples of "
        "their own": over(trial, place, ("edp", n), ("edp", n)),
        "an expert's gradient is a sum over its copies, and is not divided":
            over(trial, place, ("edp", 1), others),
        "nothing is divided: these are sums": over(trial, place, ("edp", 1), (all_axes, 1)),
        "an expert's gradient is divided, but not added up over its copies":
            over(trial, place, ((), n), others),
        "gradients are as they were": over(trial, place, ((), 1), ((), 1)),
        "an expert's gradient is divided by the ranks of its group along ep: in its sum are all "
        "ranks": over(trial, place, ("edp", sizes["ep"]), others),
    }  # fmt: skip


def faults(trial):
    for place, of in enumerate(trial):
        gone = [name for name, gradient in of.gradients.items() if gradient is None]
        if gone:
            yield (
                f"{trial.who(place)}: .grad of {gone[0]} is None",
                "each gradient stays, as a mean",
            )
        if of.changed:
            yield f"{trial.who(place)}: the parameters have changed", "only p.grad is to change"


def described(trial, place) -> str:
    got, wanted = trial[place].gradients, truth(trial, place)
    wrong = [
        name
        for name in trial.case.args[1]
        if got[name] is None or not got[name].equal(wanted[name])
    ]
    kinds = ["an expert" if name in OF_EXPERTS else "what all ranks have" for name in wrong]
    told = " and of ".join(dict.fromkeys(kinds))
    return f"{trial.who(place)}: wrong is the gradient of {told}"


EXERCISE = RankExercise(
    "9.22",
    "average_gradients",
    cases=[
        At(World(n), (sizes, names), f", {in_words(sizes)}")
        for n, sizes, names in [
            (6, {"edp": 3, "ep": 2}, ORDER),
            (4, {"edp": 2, "ep": 2}, TURNED),
            (2, {"edp": 1, "ep": 2}, ORDER),
            (2, {"edp": 2, "ep": 1}, TURNED[1:]),
            (6, {"ep": 3, "edp": 2}, ORDER[:4]),
        ]
    ],
    work=average,
    facts=[
        complains(faults),
        Equals("gradients", truth, mistakes, "the gradients", tells=described),
    ],
    told="experts and all else have the mean over all samples",
    errors={
        "KeyError": "the groups are mesh[\"edp\"], mesh[\"ep\"] and mesh[\"edp\", \"ep\"]",
        "has no attribute 'is_of_expert'": "only the experts' parameters have this attribute: ask "
        "for it with a default, or with hasattr",
    },
    lost="all ranks of a group call the all-reduce, in the same order of the parameters",
    hints=(
        "On one expert's rank: which ranks' samples are in its gradient after the backward? Which "
        "ranks' samples are missing?",
        "The loss of one process is the mean over all samples. So each sum is divided by the "
        "number of all ranks that have samples: mesh.sizes[\"edp\"] * mesh.sizes[\"ep\"].",
    ),
)  # fmt: skip

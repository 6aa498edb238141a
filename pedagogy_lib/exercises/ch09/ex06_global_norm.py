"""The length of the gradient of a model that is cut, in stages, and copied."""

import math

import torch
from torch import nn

from ...basics.closeness import close_in_float32
from ...course.checking import Wrong
from ..kit import At, Equals, RankExercise, Refused, World, answering, never
from ..kit.trials import numbers
from ..kit.values import NO_RETURN
from .meshes import SmallMesh, all_places, in_words

SHAPES = {
    "up": (4, 3), "bias": (4,), "down": (3, 4), "norm": (3,), "places": (2, 3), "seldom": (2,)
}  # fmt: skip
WHOLE = ("norm", "places")  # cut nowhere
JOINT = (("pp", "tp"), ("dp", "pp", "tp"))
TIED = "letters"  # the first and the last stage have it, cut
CUT_DIM = {"up": 0, "bias": 0, "down": 1, "seldom": 1, TIED: 0}


def gradient_of(name, at) -> torch.Tensor | None:
    """Equal along dp; along tp, if it is not cut; the tied one also on both ends."""
    if name == "seldom":
        return None
    if name == TIED:
        return numbers(10 * at["tp"], (3, 2), torch.float64, 7) / 3
    who = 10 * at["pp"] + (0 if name in WHOLE else at["tp"])
    return numbers(who, SHAPES[name], torch.float64, [*SHAPES].index(name)) / 3


def has_tied(at, sizes) -> bool:
    return at["pp"] in (0, sizes["pp"] - 1)


def names_at(at, sizes, few=False) -> list[str]:
    """few: what is cut nowhere; so most ranks have nothing to count."""
    names = list(WHOLE) if few else [*SHAPES, *([TIED] if has_tied(at, sizes) else [])]
    return names[::-1] if at["pp"] == 0 else names


def measure_norm(answer, group, case):
    sizes, few, scale = case.args
    mesh = SmallMesh(sizes, JOINT)
    parameters = {}
    for name in names_at(mesh.at, sizes, few):
        gradient = gradient_of(name, mesh.at)
        shape = SHAPES[name] if gradient is None else gradient.shape
        p = parameters[name] = nn.Parameter(torch.ones(shape, dtype=torch.float64))
        p.grad = None if gradient is None else scale * gradient
        if name in CUT_DIM:
            p.cut_dim = CUT_DIM[name]
    is_second = mesh.at["pp"] == sizes["pp"] - 1 > 0
    elsewhere = [parameters[TIED]] if is_second and not few else []
    before = {name: None if p.grad is None else p.grad.clone() for name, p in parameters.items()}
    with answering():
        norm = answer(list(parameters.values()), mesh, *([elsewhere] if elsewhere else []))
    if norm is None:
        raise Refused("it returned None", NO_RETURN)
    if not isinstance(norm, torch.Tensor) or norm.numel() != 1:
        raise Refused(f"it returned {norm!r:.60}", "asked is a tensor with one number")
    return {
        "length": norm.item() / scale,
        "changed": [name for name, p in parameters.items() if not alike(p.grad, before[name])],
    }


def alike(one, other) -> bool:
    return one is other if one is None or other is None else one.equal(other)


# ---- What is right, and what is not ---


def squares(at, names) -> float:
    gradients = [gradient_of(name, at) for name in names]
    return sum(g.pow(2).sum().item() for g in gradients if g is not None)


def counted(sizes, few, tied_twice=False, whole_once=True, pp=None, tp=None, of_whole=1.0) -> float:
    """The sum of squares over one copy of the model; pp, tp: of this place alone.

    of_whole  by what those of parameters that are cut nowhere are multiplied
    """
    total = 0.0
    for at in all_places(sizes):
        if at["dp"] or pp not in (None, at["pp"]) or tp not in (None, at["tp"]):
            continue
        names = names_at(at, sizes, few)
        if not tied_twice and at["pp"] == sizes["pp"] - 1 > 0 and not few:
            names.remove(TIED)
        if whole_once and at["tp"] != (tp or 0):
            names = [name for name in names if name not in WHOLE]
        whole = [name for name in names if name in WHOLE]
        total += squares(at, names) - (1 - of_whole) * squares(at, whole)
    return total


def length(trial, place):
    return math.sqrt(counted(*trial.case.args[:2]))


def mistakes(trial, place):
    sizes, few, scale = trial.case.args
    places = all_places(sizes)
    at, dp, right = places[place], sizes["dp"], counted(sizes, few)
    own = [counted(sizes, few, pp=pp) for pp in range(sizes["pp"])]
    of_ranks = [math.sqrt(squares(each, names_at(each, sizes, few))) for each in places]
    lengths = sum(of for of, each in zip(of_ranks, places) if not each["dp"])
    return {
        "a parameter that is not cut is the same on all ranks along tp, and counts once for each "
        "of them here: let one of these ranks count it":
            math.sqrt(counted(sizes, few, whole_once=False)),
        "what is not cut is the same on all ranks along tp. Half of it is right for two of them: "
        "let "
        "one of these ranks count it, however many there are":
            math.sqrt(counted(sizes, few, whole_once=False, of_whole=0.5)),
        "the weight that two stages have counts twice: those in counted_elsewhere are left out":
            math.sqrt(counted(sizes, few, tied_twice=True)),
        "the weight that two stages have counts twice, and what is not cut counts on each rank "
        "along tp": math.sqrt(counted(sizes, few, True, False)),
        "each copy of the model has the same gradient now, and all of them are in this sum: add up "
        "within one copy, over mesh[\"pp\", \"tp\"]": math.sqrt(dp * right),
        "all ranks of the world are in this sum: each copy counts, and so does what is not cut on "
        "each rank along tp": math.sqrt(dp * counted(sizes, few, whole_once=False)),
        "these are the parts of this stage alone: the other stages have gradients, too":
            math.sqrt(own[at["pp"]]),
        "these are the gradients of this rank alone: each rank finds another length, and would "
        "shorten differently": of_ranks[place],
        "this is the rank's own part without what is counted elsewhere. The others' parts belong "
        "to the same gradient": math.sqrt(counted(sizes, few, pp=at["pp"], tp=at["tp"])),
        "these are the parts of all stages, but of one place along tp only: cut parameters have "
        "others there": math.sqrt(counted(sizes, few, tp=at["tp"])),
        "this is the square of the length: the root comes last": right * scale,
        "lengths do not add up: their squares do": lengths,
        "in this mean each rank counts as one of several. Squares are added, there is no mean":
            math.sqrt(right / (sizes["pp"] * sizes["tp"])),
    }  # fmt: skip


def needs_few_bytes(trial):
    for place, calls in enumerate(trial.calls):
        most = max([call.tensor_bytes for call in calls], default=0)
        if most > 16:
            what = f"{trial.who(place)} hands in {most} bytes, expected 8"
            why = "the others need one number of each rank: the sum of its squares"
        elif len(calls) > 2:
            what = f"{trial.who(place)} communicates {len(calls)} times, expected once"
            why = "add up first what this rank has, then over the ranks, once"
        else:
            continue
        raise Wrong(f"cost, {trial.case}", f"the number is right, but {what}", why)


EXERCISE = RankExercise(
    "9.6",
    "global_norm",
    lab="three_dimensions",
    cases=[
        At(World(n), (sizes, False, 1.0), f", {in_words(sizes)}")
        for n, sizes in [
            (2, {"dp": 1, "pp": 1, "tp": 2}),
            (2, {"dp": 1, "pp": 2, "tp": 1}),
            (4, {"dp": 1, "pp": 2, "tp": 2}),
            (4, {"dp": 2, "pp": 1, "tp": 2}),
            (3, {"dp": 1, "pp": 3, "tp": 1}),
            (3, {"dp": 1, "pp": 1, "tp": 3}),
        ]
    ] + [
        At(World(2), ({"dp": 1, "pp": 1, "tp": 2}, True, 1.0), ", tp 2, and nothing is cut"),
        At(World(1), ({"dp": 1, "pp": 1, "tp": 1}, False, 1e-9), ", tiny gradients"),
    ],
    work=measure_norm,
    facts=[
        never("changed", lambda names: f"the gradient of {names[0]} has changed",
              "it is only to be measured: the optimizer steps with it afterwards"),
        Equals("length", length, mistakes, "the length", same=close_in_float32),
        needs_few_bytes,
    ],
    told=lambda trial: f"the length is {trial[0].length:.6g} on every rank, as in one process",
    errors={
        "'NoneType'": "a parameter without part in the loss has None for a gradient: it counts as "
        "zeros",
        "has no attribute 'cut_dim'": "a parameter that is not cut has no such attribute: hasattr",
        **dict.fromkeys(
            ("Boolean value of Tensor", "at non-singleton dimension"),
            "`in` compares tensors number by number. Compare which object it is: any(p is q for q "
            "in …), or id(p)",
        ),
        "EnforceNotMet": "what this rank brings differs in length from what the others bring: a "
        "tensor of its own, such as torch.zeros(()), is of float32 unless told otherwise",
        "got <class 'int'>": "this rank has nothing to count, and sum() of nothing is the number "
        "0: an all-reduce takes a tensor",
        "'int' object has no attribute": "sum() of nothing is the number 0, not a tensor",
        "'float' object has no attribute": "an all-reduce takes a tensor, not a number",
    },
    lost="all ranks of mesh[\"pp\", \"tp\"] make the same call",
    hints=(
        "Each number of the whole gradient has to be counted once. Which ranks have the same "
        "number? Let only one of them count it.",
        'Cut parameters count on every rank; others where mesh.at["tp"] is 0. Those in '
        "counted_elsewhere do not count here.",
        'One number, the sum of this rank\'s squares, goes into an all-reduce over mesh["pp", '
        '"tp"]. The root comes last.',
    ),
)  # fmt: skip

"""The code that runs next to the answer, and its inputs."""

import torch
from torch import nn

from coursekit.kit import Rejection, measure_answer
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.results import NO_RETURN

from ..shared.meshes import SmallMesh

SHAPES = {
    "up": (4, 3), "bias": (4,), "down": (3, 4), "norm": (3,), "places": (2, 3), "seldom": (2,)
}  # fmt: skip

WHOLE = ("norm", "places")  # not cut

JOINT = (("pp", "tp"), ("dp", "pp", "tp"))

TIED = "letters"  # on the first and the last stage, cut along tp

CUT_DIM = {"up": 0, "bias": 0, "down": 1, "seldom": 1, TIED: 0}


def gradient_of(name, at) -> torch.Tensor | None:
    """Return the gradient of a parameter on the rank at these coordinates of the mesh, in float64.

    It is equal along dp, along tp if uncut, and on both end stages if tied; "seldom" has none.
    """
    if name == "seldom":
        return None
    if name == TIED:
        return numbers(10 * at["tp"], (3, 2), torch.float64, 7) / 3
    who = 10 * at["pp"] + (0 if name in WHOLE else at["tp"])
    return numbers(who, SHAPES[name], torch.float64, [*SHAPES].index(name)) / 3


def has_tied(at, sizes) -> bool:
    return at["pp"] in (0, sizes["pp"] - 1)


def names_at(at, sizes, few=False) -> list[str]:
    """Return a place's parameters; with `few`, only uncut ones, which most ranks do not count."""
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
    with measure_answer():
        norm = answer(list(parameters.values()), mesh, *([elsewhere] if elsewhere else []))
    if norm is None:
        raise Rejection("it returned None", NO_RETURN)
    if not isinstance(norm, torch.Tensor) or norm.numel() != 1:
        raise Rejection(f"it returned {norm!r:.60}", "asked is a tensor with one number")
    return {
        "length": norm.item() / scale,
        "changed": [name for name, p in parameters.items() if not alike(p.grad, before[name])],
    }


def alike(one, other) -> bool:
    return one is other if one is None or other is None else one.equal(other)

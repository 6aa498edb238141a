"""The code that runs next to the answer, and the right results."""

import torch
import torch.distributed as dist
from torch import nn

from coursekit.kit import Rejection, measure_answer
from coursekit.kit.collective_exercise import make_noncontiguous, numbers
from coursekit.kit.observed_calls import all_waited
from coursekit.kit.results import RETURNS_NONE

# {name: (shape on a rank, dim along which it is cut, or None if every rank has all of it)}
KINDS = {
    "letters": ((3, 2), 0), "up": ((4, 2), 0), "up_bias": ((4,), 0), "down": ((2, 4), 1),
    "unused": ((5,), 0), "seldom": ((2, 3), 0),
    "norm": ((2,), None), "down_bias": ((2,), None), "scale": ((), None), "frozen": ((3,), None),
}  # fmt: skip

WITHOUT = ("unused", "frozen")  # never have a gradient; `seldom` has none on the first rank

FROZEN = ("up_bias", "frozen")  # the first was frozen after a backward and has a gradient

MODELS = {
    "cut and whole parameters": list(KINDS),
    "all are cut": ["letters", "up", "down"],
    "all are whole": ["norm", "down_bias"],
    "no gradient at all": list(WITHOUT),
    "the first rank has no gradient": ["seldom"],
}


class Part(nn.Module):
    """A rank's part of a model, with gradients; `output` is tied to `letters`."""

    def __init__(self, names, place, n):
        super().__init__()
        for name in names:
            shape, dim = KINDS[name]
            p = nn.Parameter(torch.ones(shape, dtype=torch.float64), name not in FROZEN)
            p.grad = gradient_of(name, place)
            if dim is not None:  # the marks that the lab's part_of leaves
                p.cut_dim, p.cut_sizes = dim, [shape[dim]] * n
            self.register_parameter(name, p)
        if "letters" in names:
            self.output = self.letters


def gradient_of(name, place) -> torch.Tensor | None:
    """Return a gradient, not contiguous; that of a cut parameter differs on each rank."""
    if name in WITHOUT or (name == "seldom" and place == 0):
        return None
    shape, dim = KINDS[name]
    drawn = numbers(0 if dim is None else place, shape, torch.float64, [*KINDS].index(name))
    return make_noncontiguous((drawn - 3) / 3)


def measure_norm(answer, group, case):
    place = dist.get_rank(group)
    model = Part(MODELS[case.args[0]], place, dist.get_world_size(group))
    gradients = {name: p.grad for name, p in model.named_parameters()}
    with measure_answer(), all_waited():
        norm = answer(model, group)
    try:
        length = float(norm)
    except (TypeError, ValueError, RuntimeError):
        why = RETURNS_NONE if norm is None else "asked is one number, for the whole model"
        raise Rejection(f"it returned {norm!r:.60}", why) from None
    return {
        "length": length,
        "changed": [name for name, p in model.named_parameters() if p.grad is not gradients[name]
                    or (p.grad is not None and not p.grad.equal(gradient_of(name, place)))],
    }  # fmt: skip


def flat(trial, places, cut, left_out=()) -> list[torch.Tensor]:
    """Return the gradients of some parameters on these places.

    cut  True for parameters that are cut, False for others, or the dims along which they are cut
    """
    names, dims = MODELS[trial.case.args[0]], {True: (0, 1), False: (None,)}.get(cut, cut)
    chosen = [name for name in names if KINDS[name][1] in dims and name not in left_out]
    found = [gradient_of(name, place) for place in places for name in chosen]
    return [gradient for gradient in found if gradient is not None]


def norm_of(gradients, power=2.0) -> float:
    return nn.utils.get_total_norm(gradients, power).item() if gradients else 0.0


def length(trial, place):
    return norm_of(flat(trial, range(trial.n), True) + flat(trial, [0], False))

"""The code that runs next to the answer, and the right results."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from coursekit.kit import Rejection
from coursekit.kit.diagnoses import kind_of
from coursekit.kit.results import RETURNS_NONE
from coursekit.labs import find_lab
from pedagogy_lib.basics.closeness import close

P = 0.5

RATES = (P, P, 0.25)  # p in each call; the last one distinguishes p from 1 - p

SAMPLES, PART, WIDTH = 16, 64, 64  # so large that equal masks are no coincidence

COMMON, OWN = 11, 5  # seeds: one for all ranks' common draws, one for `randomness`

NO_HISTORY = (
    "y has no history: a backward cannot begin there. What is computed from x.detach(), from "
    "x.data, or under no_grad, is a constant for autograd"
)

ARGUMENT = "whoever calls the function still needs it as it was: change a copy, or make a new one"


def drop(answer, group, case):
    """Return the findings of some calls, and the next draw; all ranks have the same seed."""
    lab = getattr(answer, "__globals__", {}).get("tensor_parallel") or find_lab("tensor_parallel")
    randomness = lab.OwnRandomness(OWN)
    torch.manual_seed(COMMON)
    calls = [record_call(answer, p, randomness, *inputs(dist.get_rank(), k))
             for k, p in enumerate(RATES)]  # fmt: skip
    found = {name: [of[name] for of in calls] for name in calls[0]}
    return found | {
        "repeats": torch.equal(*found["kept"][:2]), "y_repeats": torch.equal(*found["kept_y"][:2]),
        "next": torch.rand(1).item(),
    }  # fmt: skip


def record_call(answer, p, randomness, hidden, weight, slope) -> dict:
    leaves = {"hidden": hidden.clone().requires_grad_(), "weight": weight.clone().requires_grad_()}
    y = answer(*leaves.values(), p, randomness)
    need_like(y, slope)
    (y * slope).sum().backward()
    gradients = {name: leaf.grad for name, leaf in leaves.items()}
    if any(gradient is None for gradient in gradients.values()):
        raise Rejection("hidden or weight has no gradient", NO_HISTORY)
    if not close(list(leaves.values()), [hidden, weight]):
        raise Rejection("hidden or weight has changed", ARGUMENT)
    kept, kept_y = gradients["hidden"] != 0, y.detach() != 0
    return {"y": y.detach(), "gradients": gradients, "kept": kept, "kept_y": kept_y}


def need_like(y, wanted):
    if not isinstance(y, torch.Tensor):
        what = f"it returned {y!r:.60}; expected a tensor"
        raise Rejection(what, RETURNS_NONE if y is None else "")
    if kind_of(y) != kind_of(wanted):
        raise Rejection(f"y is {kind_of(y)}, expected {kind_of(wanted)}", "")
    if not y.requires_grad:
        raise Rejection("y.requires_grad is False", NO_HISTORY)


def inputs(place, number):
    """Return hidden, weight and the slope of y, all positive, so that only what is dropped is 0."""

    def draw(seed, *shape):
        source = torch.Generator().manual_seed(seed)
        return torch.rand(*shape, generator=source, dtype=torch.float64) + 0.5

    own = 100 * number + place
    return draw(own, SAMPLES, PART), draw(50 + own, WIDTH, PART), draw(999 + number, SAMPLES, WIDTH)


def summand(trial, place, number, hidden, weight):
    """Return a rank's summand of y, with the mask that was found."""
    return F.linear(hidden * trial[place].kept[number] / (1 - RATES[number]), weight)


def y(trial, place, added=sum):
    found = []
    for number, kept in enumerate(trial[place].kept_y):
        every = [summand(trial, k, number, *inputs(k, number)[:2]) for k in range(trial.n)]
        found.append(added(every) * kept / (1 - RATES[number]))
    return found


def gradients(trial, place):
    """Return a rank's right gradients, which come only through its own summand of y."""
    found = []
    for number, kept in enumerate(trial[place].kept_y):
        *leaves, slope = (x.requires_grad_() for x in inputs(place, number))
        y = summand(trial, place, number, *leaves) * kept / (1 - RATES[number])
        (y * slope).sum().backward()
        found.append({name: leaf.grad for name, leaf in zip(("hidden", "weight"), leaves)})
    return found

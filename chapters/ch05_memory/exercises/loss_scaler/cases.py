"""The cases, and the code that runs next to the answer."""

import torch
from torch import nn

from coursekit.kit.collective_exercise import numbers

SHAPES = [(4,), (2,), (3, 2), ()]

WITHOUT = 1  # the index of the parameter that never has a gradient

INF, NAN = float("inf"), float("nan")

SPOILED = {  # (parameter, number of elements, their value) for each
    "I": [(0, 4, INF)],
    "N": [(0, 4, NAN)],
    "L": [(3, 1, INF)],  # the last parameter's only element
    "B": [(0, 4, INF), (3, 1, INF)],
    "E": [(2, 1, INF)],
    "M": [(2, 1, -INF)],
    "H": [(0, 4, 3e38)],  # each of them is finite; their sum is not
}

TRIALS = {  # scale, window, steps: a letter of SPOILED, or a dot
    "all finite": (2.0**16, 3, "...H..."),
    "true gradients of about 1e-9": (2.0**30, 3, "...."),
    "some are inf or nan": (8.0, 3, "..I....L.N.E.M..."),
    "several refused in a row": (1.0, 2000, "HEBNI."),  # divided by 1, H still overflows a sum
    "each step ends a row": (4.0, 1, "..N.."),
    "parameters as model.parameters() gives them": (8.0, 2, "..L..", True),
}


def gradients_at(step, letter) -> list:
    """Return the gradients of the scaled loss: whole numbers, some replaced as SPOILED says."""
    found = [numbers(step, shape, torch.float32, salt) for salt, shape in enumerate(SHAPES)]
    found[WITHOUT] = None
    for which, count, value in SPOILED.get(letter, ()):
        found[which].view(-1)[:count] = value
    found[2] = found[2].view(2, 3).t()  # not contiguous
    return found


def take_steps(answer, *trial):
    found, again = (steps_of(answer, *trial) for _ in range(2))
    return found | {"is_shared": not torch.equal(again["scale_after"], found["scale_after"])}


def steps_of(answer, scale, window, steps, is_generator=False) -> dict:
    """Return the findings of each step; a refused step has None for the gradients."""
    parameters, start = (
        [nn.Parameter(numbers(9, shape, torch.float32, salt)) for salt, shape in enumerate(SHAPES)]
        for _ in range(2)
    )
    scaler, noted, zeros = answer(scale=scale, window=window), [], []
    seen = {"taken": [], "scale_after": [], "gradients": [], "returned": [], "left": []}

    def take_step():
        noted.append(flat(p.grad for p in parameters))
        zeros.append(parameters[WITHOUT].grad is not None)

    for step, letter in enumerate(steps):
        for p, gradient in zip(parameters, gradients_at(step, letter)):
            p.grad = gradient
        noted.clear()
        returned = scaler.step((p for p in parameters) if is_generator else parameters, take_step)
        seen["taken"].append(len(noted))
        seen["scale_after"].append(float(scaler.scale))
        seen["gradients"].append(noted[0] if noted else None)
        seen["returned"].append(bool_or_text(returned))
        seen["left"].append(flat(p.grad for p in parameters) if noted else None)
    seen |= {name: torch.tensor(seen[name]) for name in ("taken", "scale_after")}
    return seen | {"zeros": any(zeros), "changed": not all(map(torch.equal, parameters, start))}


def bool_or_text(value):
    """Return True or False for any value that is 0 or 1; otherwise None or a text."""
    try:
        return bool(value) if float(value) in (0, 1) else f"{value!r:.40}"
    except (TypeError, ValueError, RuntimeError):
        return None if value is None else f"{value!r:.40}"


def flat(gradients):
    """Return the gradients as one flat tensor, without the parameter that never has one."""
    found = [x for i, x in enumerate(gradients) if i != WITHOUT and x is not None]
    return torch.cat([x.detach().flatten() for x in found]) if found else None

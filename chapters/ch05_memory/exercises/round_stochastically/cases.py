"""The cases, and the code that runs next to the answer."""

import math

import torch

from coursekit.kit.results import NO_RETURN

COPIES = 40_000

PLACES = (1 / 8, 1 / 4, 0.4375, 0.5625, 3 / 4, 7 / 8)  # shares of the way between two neighbours

LOWER = {  # the neighbour nearer to 0, a bfloat16
    "numbers from 1 to 2": 1.25,
    "just below 2": 1.9921875,
    "negative numbers": -1.5,
    "numbers near 1000": 1000.0,
    "numbers near 1e-20": 2.0**-67 * 1.25,
    "numbers near -3e36": -(2.0**121) * 1.125,
    "just above 1": 1.0,
}

EXACT = [0.0, 1.0, -1.0, 1.9921875, -2.0, 0.5, 0.25, 7.0, 3.0, -1000.0]


def spacing(x: float) -> float:
    """Return the distance between the bfloat16 neighbours of x, which has 7 bits of fraction."""
    return 2.0 ** (math.floor(math.log2(abs(x))) - 7)


def interpolate_neighbours(lower) -> torch.Tensor:
    """Return a number at each place, in float32, which represents all of them exactly."""
    step = math.copysign(spacing(lower), lower)
    return torch.tensor([lower + place * step for place in PLACES], dtype=torch.float64).float()


def count(answer, lower):
    x = interpolate_neighbours(lower)[:, None].expand(-1, COPIES).clone()
    before = x.clone()
    got = answer(x)
    if (fault := fault_of(got, x)) is not None:
        return {"fault": fault}
    upper = lower + math.copysign(spacing(lower), lower)
    got = got.double()
    others = (got != lower) & (got != upper)
    return {
        "fault": None,
        "changed": not torch.equal(x, before),
        "shares": (got == upper).double().mean(1),
        "beyond": others.double().mean().item(),
        "first": got[others][0].item() if others.any() else None,
    }


def fault_of(got, x):
    if got is None:
        return ("it returned None", NO_RETURN)
    if not isinstance(got, torch.Tensor):
        return (f"it returned {got!r:.60}", "asked is a tensor of torch")
    if got.dtype != torch.bfloat16:
        return (
            f"the result is {str(got.dtype).removeprefix('torch.')}, expected bfloat16",
            "the result has to take 2 bytes a number: end with a bfloat16",
        )
    if got.shape != x.shape:
        return (
            f"the result has the shape {list(got.shape)}, expected {list(x.shape)}",
            "the result has the shape of x",
        )
    return None


def keep_exact(answer):
    x = torch.tensor(EXACT)[:, None].expand(-1, COPIES).clone()
    got = answer(x.clone())
    if (fault := fault_of(got, x)) is not None:
        return {"fault": fault}
    moved = got.float() != x
    pair = (x[moved][0].item(), got[moved][0].item()) if moved.any() else None
    return {"fault": None, "moved": pair, "kept": [row.unique().tolist() for row in got.float()]}


def try_shapes(answer):
    """Return the first fault with tensors of other shapes, including non-contiguous ones."""
    torch.manual_seed(3)
    square = torch.randn(6, 4)
    faults = []
    for x in (square, square.t(), square[:, ::2], square[0, 0], torch.randn(2, 3, 4)):
        before = x.clone()
        got = answer(x)
        faults.append(fault_of(got, x))
        if faults[-1] is None and (got.double() - x.double()).abs().max() > 2.0**-6:
            faults[-1] = (
                f"numbers of shape {list(x.shape)} have moved farther than to a neighbour",
                "each number is rounded at its own place: look at the order of a tensor that is "
                "transposed, or has gaps",
            )
        if not torch.equal(x, before):
            faults[-1] = ("x has changed", IN_PLACE)
    return {"fault": next((fault for fault in faults if fault), None)}


IN_PLACE = "x.view(…) is the same memory as x: what is added in place changes x"


def draw_twice(answer):
    x = torch.full((2_000,), 1 + 2.0**-8)  # halfway between neighbours
    torch.manual_seed(4)
    draws = [answer(x.clone()).double() for _ in range(3)]
    square = answer(torch.full((50, 40), 1 + 2.0**-8)).double()
    together = bool((square == square[:1]).all() or (square == square[:, :1]).all())
    return {
        "together": together,
        "again": torch.equal(draws[0], draws[1]) and torch.equal(draws[1], draws[2]),
    }

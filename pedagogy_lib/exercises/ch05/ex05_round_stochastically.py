"""float32 rounded to bfloat16 by chance, so that the mean stays.

Numbers are given many times each, so that shares can be counted: of those that became the upper
neighbour, in magnitude. The neighbours are computed from exponents, not from bits.
"""

import math

import torch

from ...basics.closeness import close
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone
from ..kit.values import NO_RETURN

COPIES = 40_000
MOST_OFF = 0.02  # of a share: eight times its standard deviation
PLACES = (1 / 8, 1 / 4, 0.4375, 0.5625, 3 / 4, 7 / 8)  # between two neighbours
LOWER = {  # the neighbour that is nearer to 0, each a bfloat16
    "numbers from 1 to 2": 1.25,
    "just below 2": 1.9921875,
    "negative numbers": -1.5,
    "numbers near 1000": 1000.0,
    "numbers near 1e-20": 2.0**-67 * 1.25,
    "numbers near -3e36": -(2.0**121) * 1.125,
    "just above 1": 1.0,
}
EXACT = [0.0, 1.0, -1.0, 1.9921875, -2.0, 0.5, 0.25, 7.0, 3.0, -1000.0]

NEAREST = (
    "this is rounding to the nearest: in the first half of the way always down, then always up"
)
DOWN = (
    "every number becomes the neighbour that is nearer to 0: the lower bits are cut off, and "
    "chance has no part in it"
)
UP = "every number becomes the neighbour that is farther from 0"
COIN = (
    "both neighbours come up equally often, wherever the number lies. The nearer one has to come "
    "up more often"
)
TURNED = (
    "the probabilities are exchanged: a number that lies near its lower neighbour mostly becomes "
    "the upper one"
)
HALF_BITS = (
    "chance adds at most half of the way to the next neighbour: in the first half of the way "
    "nothing is ever rounded up. The random number has to have all the bits that are cut off"
)
TWICE = (
    "some numbers have moved past both neighbours, or too many have moved up. After something "
    "random has been added, the lower bits are cut off; rounding to the nearest adds half a step "
    "once more"
)
FIXED = (
    "two calls with the same numbers give the same results. Each call has to draw anew: no seed is "
    "set in here"
)
TOGETHER = (
    "all copies of a number become the same neighbour: one chance is drawn for all of them. Each "
    "number needs a chance of its own"
)
NOT_EXACT = "a number that bfloat16 has needs no rounding, and has to stay"
UNEVEN = (
    "the probability is to be the share of the way that the number has gone. So every amount of "
    "chance has to come up equally often, with all the bits that are cut off"
)
RANGE = (
    "the amount of chance has to fit the number: the distance of two neighbours doubles with each "
    "power of 2"
)


# ---- The truth ---


def spacing(x: float) -> float:
    """How far the neighbours of x in bfloat16 are from each other, as it has 7 bits of fraction."""
    return 2.0 ** (math.floor(math.log2(abs(x))) - 7)


def between(lower) -> torch.Tensor:
    """A number at each place, in float32, which has them all exactly."""
    step = math.copysign(spacing(lower), lower)
    return torch.tensor([lower + place * step for place in PLACES], dtype=torch.float64).float()


# ---- On a rank ---


def count(answer, lower):
    x = between(lower)[:, None].expand(-1, COPIES).clone()
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
    """Of other shapes, and not contiguous; values are near, each within a step."""
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
    x = torch.full((2_000,), 1 + 2.0**-8)  # halfway
    torch.manual_seed(4)
    draws = [answer(x.clone()).double() for _ in range(3)]
    square = answer(torch.full((50, 40), 1 + 2.0**-8)).double()
    together = bool((square == square[:1]).all() or (square == square[:, :1]).all())
    return {
        "together": together,
        "again": torch.equal(draws[0], draws[1]) and torch.equal(draws[1], draws[2]),
    }


# ---- What is not right ---


def near(got, wanted) -> bool:
    return close(got, wanted) or bool((got - wanted).abs().max() <= MOST_OFF)


def mistakes(trial, place):
    at = torch.tensor(PLACES, dtype=torch.float64)
    ones = torch.ones_like(at)
    shares = trial[place].shares
    found = {
        NEAREST if is_near_one(trial) else RANGE: (at > 0.5).double(),
        DOWN: 0 * at,
        UP: ones,
        COIN: ones / 2,
        TURNED: 1 - at,
        HALF_BITS: (2 * at - 1).clamp(min=0),
        TWICE: torch.where(at < 0.5, at + 0.5, 1.5 - at),  # the others are beyond both
    }
    if bool(((shares == 0) | (shares == 1)).all()):
        found[TOGETHER] = shares
    return found


def is_near_one(trial) -> bool:
    """Where a chance that does not fit other numbers may fit."""
    return 0.5 < abs(trial.case.args[0]) < 4


def farthest(shares) -> str:
    """Of the place whose share is the most off."""
    k = int((shares - torch.tensor(PLACES)).abs().argmax())
    return (
        f"of the numbers that have gone {PLACES[k]:g} of the way, {shares[k]:.4g} are rounded away "
        "from 0"
    )


def told(trial) -> str:
    return "rounded up as often as it should be" if trial.of("shares") else "right"


def name_of_fault(fault):
    return fault[0]


def needs_no_fault(name="fault"):
    return Holds(name, lambda fault: fault is None, name_of_fault,
                 lambda trial, place: trial[place].fault[1])  # fmt: skip


FOUND = {
    keep_exact: ("kept",), count: ("shares", "beyond"), try_shapes: ("fault",),
    draw_twice: ("together", "again"),
}  # fmt: skip

EXERCISE = WarmExercise(
    "5.5",
    "round_stochastically",
    lab="small_states",
    cases=[
        Alone("numbers that bfloat16 has", keep_exact),
        *(Alone(f"{name}, {COPIES:,} copies each", count, (lower,))
          for name, lower in LOWER.items()),
        Alone("other shapes", try_shapes),
        Alone("three calls", draw_twice),
    ],
    work=alone,
    found=lambda case: FOUND[case.work],
    facts=[
        needs_no_fault(),
        Holds("moved", lambda pair: pair is None,
              lambda pair: f"{pair[0]:g} has become {pair[1]:.8g}", NOT_EXACT),
        Equals("kept", lambda trial, place: [[x] for x in EXACT], otherwise=NOT_EXACT),
        never("changed", "x has changed", IN_PLACE),
        Equals("shares", lambda trial, place: torch.tensor(PLACES, dtype=torch.float64), mistakes,
               "the share that is rounded away from 0", same=near,
               tells=lambda trial, place: farthest(trial[place].shares),
               otherwise=lambda trial: UNEVEN if is_near_one(trial) else RANGE),
        Holds("beyond", lambda share: share == 0,
              lambda share: f"{share:.1%} of the numbers have become neither of their neighbours",
              lambda trial, place: TWICE if is_near_one(trial) else RANGE),
        never("together", "whole rows or columns become the same neighbour", TOGETHER),
        never("again", "the results are the same each time", FIXED),
    ],
    told=told,
    errors={
        "'NoneType'": NO_RETURN,
        "view size is not compatible": "x may be transposed, or have gaps: x.contiguous() has its "
        "numbers one after another",
        "self.stride(-1) must be 1": "x may be transposed, or have gaps: x.contiguous() has its "
        "numbers one after another",
        "overflow": "a random number of 16 bits is at least 0, and below 2**16",
    },
    hints=(
        "Which part of the way has a number gone, if you look at its lower 16 bits alone? They are "
        "a number from 0 to 65,535.",
        "bits = x.view(torch.int32). Add torch.randint(0, 2**16, …) of the same shape, dtype "
        "torch.int32. There is a carry into the upper half with just the right probability.",
        "Then cut the lower 16 bits off: & -(2**16). View the result as float32: it is a number "
        "that bfloat16 has, so .bfloat16() rounds nothing.",
    ),
)  # fmt: skip

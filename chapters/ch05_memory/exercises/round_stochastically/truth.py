"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit import Holds
from pedagogy_lib.basics.closeness import close

from .cases import PLACES, count, draw_twice, keep_exact, try_shapes

MOST_OFF = 0.02  # error of a share; eight times its standard deviation

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


def is_close_enough(got, wanted) -> bool:
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
        TWICE: torch.where(at < 0.5, at + 0.5, 1.5 - at),  # the rest is beyond both neighbours
    }
    if bool(((shares == 0) | (shares == 1)).all()):
        found[TOGETHER] = shares
    return found


def is_near_one(trial) -> bool:
    """Return whether x is near 1, where noise of a fixed size may happen to fit."""
    return 0.5 < abs(trial.case.args[0]) < 4


def farthest(shares) -> str:
    """Return a sentence about the place whose share has the largest error."""
    k = int((shares - torch.tensor(PLACES)).abs().argmax())
    return (
        f"of the numbers that have gone {PLACES[k]:g} of the way, {shares[k]:.4g} are rounded away "
        "from 0"
    )


def describe_result(trial) -> str:
    return "rounded up as often as it should be" if trial.collect_values("shares") else "right"


def name_of_fault(fault):
    return fault[0]


def needs_no_fault(name="fault"):
    return Holds(name, lambda fault: fault is None, name_of_fault,
                 lambda trial, place: trial[place].fault[1])  # fmt: skip


FOUND = {
    keep_exact: ("kept",), count: ("shares", "beyond"), try_shapes: ("fault",),
    draw_twice: ("together", "again"),
}  # fmt: skip

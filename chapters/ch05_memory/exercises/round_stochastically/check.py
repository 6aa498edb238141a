"""Stochastic rounding of float32 to bfloat16, which preserves the mean.

Each number is given many times, so that the share rounded to the neighbour of larger magnitude can
be counted. The neighbours are computed from exponents, not from bits.
"""

import torch

from coursekit.kit import Equals, Holds, never
from coursekit.kit.results import NO_RETURN
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from .cases import COPIES, EXACT, IN_PLACE, LOWER, PLACES, count, draw_twice, keep_exact, try_shapes
from .truth import (
    FIXED,
    FOUND,
    NOT_EXACT,
    RANGE,
    TOGETHER,
    TWICE,
    UNEVEN,
    describe_result,
    farthest,
    is_close_enough,
    is_near_one,
    mistakes,
    needs_no_fault,
)

EXERCISE = WarmExercise(
    "round_stochastically",
    lab="small_states",
    cases=[
        Alone("numbers that bfloat16 has", keep_exact),
        *(Alone(f"{name}, {COPIES:,} copies each", count, (lower,))
          for name, lower in LOWER.items()),
        Alone("other shapes", try_shapes),
        Alone("three calls", draw_twice),
    ],
    work=run_alone,
    found=lambda case: FOUND[case.work],
    facts=[
        needs_no_fault(),
        Holds("moved", lambda pair: pair is None,
              lambda pair: f"{pair[0]:g} has become {pair[1]:.8g}", NOT_EXACT),
        Equals("kept", lambda trial, place: [[x] for x in EXACT], otherwise=NOT_EXACT),
        never("changed", "x has changed", IN_PLACE),
        Equals("shares", lambda trial, place: torch.tensor(PLACES, dtype=torch.float64), mistakes,
               "the share that is rounded away from 0", same=is_close_enough,
               tells=lambda trial, place: farthest(trial[place].shares),
               otherwise=lambda trial: UNEVEN if is_near_one(trial) else RANGE),
        Holds("beyond", lambda share: share == 0,
              lambda share: f"{share:.1%} of the numbers have become neither of their neighbours",
              lambda trial, place: TWICE if is_near_one(trial) else RANGE),
        never("together", "whole rows or columns become the same neighbour", TOGETHER),
        never("again", "the results are the same each time", FIXED),
    ],
    right=describe_result,
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

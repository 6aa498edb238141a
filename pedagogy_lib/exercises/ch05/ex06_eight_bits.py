"""A tensor in 8 bits a number, by blocks.

Where values are compared, every scale is a power of 2 and no number lies halfway between two codes:
then there is nothing to be rounded but what is asked. The truth goes block by block, in Python.
"""

import torch

from ...basics.closeness import close_in_float32
from ...basics.torch_private import OperatorMode
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone
from ..kit.tables import tabled
from ..kit.values import NO_RETURN
from .codes_and_scales import (
    NOT_A_NUMBER,
    ZEROS,
    packed,
    true_back,
    wrong_back,
    wrong_codes,
    wrong_scales,
)

# For each case the shape, the block, and for each block the power of 2 that is its scale, or None.
CASES = {
    "4 numbers, blocks of 4": ((4,), 4, [0]),
    "6 numbers, blocks of 2": ((6,), 2, [1, 3, -2]),
    "shape 3 × 4, blocks of 6": ((3, 4), 6, [2, -3]),
    "shape 2 × 5, blocks of 4": ((2, 5), 4, [0, 4, -1]),
    "a block of zeros": ((9,), 3, [5, None, 0]),
    "fewer numbers than a block": ((5,), 256, [-4]),
    "a single number, without a shape": ((), 8, [2]),
    "shape 5 × 3, transposed, blocks of 7": ((5, 3), 7, [1, -2, 0]),
    "300 numbers, blocks of 256": ((300,), 256, [1, -6]),
}
COUNT, BLOCK = 1_000, 64  # of random numbers
FRACTIONS = (0.0, 0.25, -0.25, 0.375, -0.375)  # of a code, beside a whole number

# ---- Inputs ---


def make(shape, block, powers) -> torch.Tensor:
    """With the largest magnitude of each block 127 times a power of 2, and negative in odd ones."""
    source = torch.Generator().manual_seed(len(powers) + block)
    count = torch.Size(shape).numel()
    codes = torch.randint(-100, 101, (count,), generator=source).double()
    at = torch.randint(0, len(FRACTIONS), (count,), generator=source)
    x = codes + torch.tensor(FRACTIONS, dtype=torch.float64)[at]
    for number, power in enumerate(powers):
        piece = slice(number * block, (number + 1) * block)
        middle = number * block + min(block, count - number * block) // 2
        x[middle] = -127 if number % 2 else 127
        x[piece] *= 0 if power is None else 2.0**power
    x = x.float().view(shape)
    return x.t().contiguous().t() if len(shape) == 2 and shape[0] > shape[1] else x


def stored_for(shape, block, powers):
    """Codes and scales for `unpack`; other codes than those of x, which are asked for."""
    source = torch.Generator().manual_seed(1 + len(powers) + block)
    count = torch.Size(shape).numel()
    codes = torch.randint(-127, 128, (count,), generator=source).to(torch.int8)
    scales = torch.tensor([0.0 if power is None else 2.0**power for power in powers])
    for number, power in enumerate(powers):
        codes[number * block : (number + 1) * block] *= power is not None
    return codes, scales


@tabled(lambda: list(CASES.values()))
def known(shape, block, powers) -> dict:
    """What is right, and what mistakes give."""
    x, stored = make(shape, block, powers), stored_for(shape, block, powers)
    return {
        "right": packed(x, block),
        "back": true_back(*stored, block).view(x.shape),
        "wrong scales": wrong_scales(x, block),
        "wrong codes": wrong_codes(x, block),
        "wrong back": wrong_back(x, *stored, block),
    }


def of_known(name):
    return lambda trial, place: known(*trial.case.args)[name]


# ---- On a rank ---


def there_and_back(answer, shape, block, powers):
    x = make(shape, block, powers)
    before, eight_bits = x.clone(), answer(block)
    with Casts() as casts:
        got = eight_bits.pack(x)
    found = {
        "cast_from_nan": casts.of_nan,
        "changed": not torch.equal(x, before),
        "fault": fault_of(got),
    }
    if found["fault"] is None:
        codes, scales = got
        found |= {"codes": codes, "scales": scales}
        is_zero = torch.tensor([power is None for power in powers])
        found["zero_scales"] = scales[is_zero].tolist() if len(scales) == len(is_zero) else []
        back = answer(block).unpack(*stored_for(shape, block, powers), x.shape)
        found |= {"back": back if isinstance(back, torch.Tensor) else f"{back!r:.60}"}
    return found


def known_of(case, place) -> dict:
    if case.work is not there_and_back:
        return {}
    shape, block, powers = case.args
    return {"x": make(shape, block, powers), "right": known(shape, block, powers)["right"]}


def fault_of(got):
    if got is None:
        return ("pack returned None", NO_RETURN)
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        return (f"pack returned {type(got).__name__}", "pack returns two tensors: codes, scales")
    for name, x, dtype in zip(("codes", "scales"), got, (torch.int8, torch.float32)):
        if not isinstance(x, torch.Tensor):
            return (f"{name} is {x!r:.40}", f"{name} is a tensor of torch")
        if name == "codes" and x.dtype == torch.float32 and got[1].dtype == torch.int8:
            return ("pack returned scales, codes", "the order is codes, scales")
        if x.dtype != dtype:
            told = str(x.dtype).removeprefix("torch.")
            why = {
                "codes": "a code takes one byte: int8",
                "scales": "a scale is a float32: .float() makes one of it",
            }[name]
            return (f"{name} is {told}, expected {str(dtype).removeprefix('torch.')}", why)
        if x.dim() != 1:
            return (f"{name} has the shape {list(x.shape)}", f"{name} has one dimension")
    return None


def with_outliers() -> torch.Tensor:
    x = torch.randn(COUNT, generator=torch.Generator().manual_seed(5))
    x[::97] *= 1_000
    return x


def real_numbers(answer):
    """Random numbers with outliers, there and back."""
    x, eight_bits = with_outliers(), answer(BLOCK)
    codes, scales = eight_bits.pack(x)
    came = eight_bits.unpack(codes, scales, x.shape)
    return {"came_back": came, "bytes": codes.nbytes + scales.nbytes}


class Casts(OperatorMode):
    """Sees whether what is no number is made a whole one."""

    of_nan = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        whole = isinstance(result, torch.Tensor) and not result.is_floating_point()
        if whole and func.name() in ("aten::_to_copy", "aten::copy_"):
            self.of_nan |= any(isinstance(x, torch.Tensor) and bool(x.isnan().any()) for x in args)
        return result


def told(trial) -> str:
    if trial.of("bytes"):
        return f"{trial[0].bytes:,} bytes, no number off by more than half a scale"
    return "codes, scales, and the numbers that come back"


def most_off(came) -> float:
    """How far a number is off at most, in half scales."""
    x = with_outliers()
    half = torch.cat([(piece.max() / 254).expand(len(piece)) for piece in x.abs().split(BLOCK)])
    return ((came - x).abs() / half).max().item() if came.shape == x.shape else float("inf")


def enough(came) -> bool:
    return most_off(came) <= 1 + 1e-4  # of half a scale, which is computed in float32


EXERCISE = WarmExercise(
    "5.6",
    "EightBits",
    lab="small_states",
    cases=[
        *(Alone(name, there_and_back, case) for name, case in CASES.items()),
        Alone("1,000 random numbers, some of them large", real_numbers),
    ],
    work=alone,
    known=known_of,
    found=lambda case: (
        ("scales", "codes", "back") if case.work is there_and_back else ("came_back", "bytes")
    ),
    facts=[
        Holds("fault", lambda fault: fault is None, lambda fault: fault[0],
              lambda trial, place: trial[place].fault[1]),
        never("changed", "x has changed", "the numbers of x stay: make new tensors"),
        Equals("scales", lambda trial, place: known(*trial.case.args)["right"][1],
               of_known("wrong scales"), same=close_in_float32),
        Holds("zero_scales", lambda scales: not any(scales),
              lambda scales: f"a block of zeros has scale {scales[0]:.3g}", ZEROS),
        Equals("codes", lambda trial, place: known(*trial.case.args)["right"][0],
               of_known("wrong codes")),
        never("cast_from_nan", "a number that is nan is made an int8", NOT_A_NUMBER),
        Holds("back", lambda back: isinstance(back, torch.Tensor), "unpack returned {}",
              lambda trial, place: NO_RETURN if trial[place].back == "None" else
              "unpack returns a tensor"),
        Holds("back", lambda back: back.dtype == torch.float32,
              lambda back: f"unpack gives {str(back.dtype).removeprefix('torch.')}",
              "what comes back is float32, as x was"),
        Equals("back", of_known("back"), of_known("wrong back"), "what unpack gives",
               same=close_in_float32),
        Holds("came_back", enough,
              lambda came: f"a number is off by {most_off(came):.3g} times half a scale",
              "a number's block decides its scale, and its code is the nearest whole number"),
        Holds("bytes", lambda count: count <= COUNT + 4 * 16, "codes and scales take {:,} bytes",
              "a byte for each number, and 4 for each block, are enough"),
    ],
    told=told,
    errors={
        "shape '[-1": "the last block may be shorter: the number of numbers need not be a multiple "
        "of the block",
        "is invalid for input of size": "the last block may be shorter: the number of numbers need "
        "not be a multiple of the block. And what unpack returns has as many numbers as x",
        "must match the size": "each number needs the scale of its own block: there are as many "
        "scales as blocks, and the last block may be shorter",
        "expected a non-empty list": "x has at least one number, and so at least one block",
        "iteration over a 0-d": "x may be a single number without a shape: x.flatten() has one "
        "dimension",
    },
    hints=(
        "x.flatten().split(self.block) gives the blocks. The last one may be shorter.",
        "The scale of a block is its largest magnitude, divided by 127. "
        "scales.repeat_interleave(self.block), cut off at the number of numbers, has the scale of "
        "each number.",
        "codes: divide, round, then .to(torch.int8). Where a scale is 0, divide by 1. unpack "
        "multiplies by the same repeated scales, and ends with .view(shape).",
    ),
)  # fmt: skip

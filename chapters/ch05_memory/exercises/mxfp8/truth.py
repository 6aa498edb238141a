"""The right results, and the results of known mistakes."""

import bisect
import math

import torch

from coursekit.kit.tables import tabulate

from .cases import CASES, E4M3, make, make_stored

NUMBERS = torch.arange(127, dtype=torch.uint8).view(E4M3).tolist()  # from 0 to 448
NO_SCALE = 128  # the exponent that stands for nan
LOWEST = -127


@tabulate(lambda: list(CASES.values()))
def compute_right_and_wrong(*args) -> dict:
    """Return the right exponents, elements and numbers that come back, and those of mistakes."""
    x, block, stored = make(*args), args[1], make_stored(*args)
    powers, elements = quantize_by_search(x, block)
    is_number = spread(powers, x, block) != NO_SCALE
    return {
        "powers": powers,
        "elements": elements,
        "is_number": is_number.int(),
        "is_free": pieces_of(x, block, lambda piece: int(not piece.any())).bool(),
        "back": multiply(*stored, block),
        "wrong powers": wrong_powers(x, block),
        "wrong elements": wrong_elements(x, block, powers),
        "wrong back": wrong_back(x, powers, *stored, block),
    }


def pieces_of(x, block, value_of) -> torch.Tensor:
    """Return value_of(block) for each block, in the shape of the scales."""
    rows = x.reshape(-1, x.shape[-1]).double()
    values = [[value_of(piece) for piece in row.split(block)] for row in rows]
    return torch.tensor(values).view(*x.shape[:-1], -1)


def spread(powers, x, block) -> torch.Tensor:
    """Return the exponent of each number's block, in the shape of x."""
    return powers.repeat_interleave(block, -1)[..., : x.shape[-1]]


def quantize_by_search(x, block):
    powers = pieces_of(x, block, lambda piece: smallest_power(piece.abs().max().item()))
    each = spread(powers, x, block).flatten().tolist()
    elements = [
        0.0 if power == NO_SCALE else nearest(number / 2.0**power)
        for number, power in zip(x.double().flatten().tolist(), each)
    ]
    return powers.int(), torch.tensor(elements, dtype=torch.float64).view(x.shape)


def smallest_power(magnitude) -> int:
    if not math.isfinite(magnitude):
        return NO_SCALE
    return next(power for power in range(LOWEST, NO_SCALE) if magnitude <= 448 * 2.0**power)


def nearest(number) -> float:
    """Return the nearest number of E4M3; of two equally near ones, that with an even code."""
    above = min(bisect.bisect_left(NUMBERS, abs(number)), len(NUMBERS) - 1)
    codes = [above, max(above - 1, 0)]
    code = min(codes, key=lambda one: (abs(NUMBERS[one] - abs(number)), one % 2))
    return math.copysign(NUMBERS[code], number)


def multiply(elements, scales, block) -> torch.Tensor:
    each = scales.double().repeat_interleave(block, -1)[..., : elements.shape[-1]]
    return elements.double() * each


# ---- Known mistakes ---

FLOOR = (
    "the scale is rounded down: the OCP specification does so, and numbers of up to 511 times the "
    "scale then become 448. Take the next power of two, so that no number exceeds 448"
)
NEAREST = (
    "the scale is rounded to the nearest power of two, as a cast to float8_e8m0fnu does. Then some "
    "numbers exceed 448 times the scale. Round up before you cast"
)
WHOLE = "all scales come from the largest magnitude of x: each block has a scale of its own"
OF_ROW = "all blocks of a row have the same scale: each block has a scale of its own"
SIGNED = (
    "the scale comes from the largest number, but the number of the largest magnitude may be "
    "negative: take magnitudes first"
)
INVERSE = "these are the inverses of the scales: a scale times an element gives a number of x back"
TO_ONE = (
    "the largest magnitude of a block becomes at most 1 here. E4M3 has numbers up to 448: use "
    "them, or small numbers become 0 that need not"
)
TO_256 = "the largest magnitude becomes at most 256 here; E4M3 has numbers up to 448"
ONE_MORE = (
    "a block whose largest magnitude is 448 times a power of two needs this power as its scale, "
    "which is twice as large here: log2 is a whole number then, and has to stay what it is"
)
LEAST_126 = "the smallest scale is 2**-126 here, but float32 and float8_e8m0fnu also have 2**-127"
IN_FLOAT32 = (
    "just above 448 times a power of two, log2 is so close to a whole number that float32 rounds "
    "it to that number, and the scale becomes too small: float64 has enough digits"
)
IN_BFLOAT16 = (
    "the scales are computed in bfloat16 here, whose numbers have 8 significant bits: compute in "
    "float32"
)
TO_57344 = "57,344 is the largest number of E5M2; E4M3 ends at 448"
HIDDEN = (
    "a block with an inf or a nan needs the scale nan, or nobody sees that a number was no number: "
    "PyTorch 2.13 makes 448 of an inf, without an error"
)
UNDIVIDED = "the numbers are cast as they are: divide each by the scale of its block first"
MULTIPLIED = "the numbers are multiplied by their scales: divide"
CUT = "the numbers are rounded towards 0; .to(torch.float8_e4m3fn) rounds to the nearest"
UNSCALED = "these are the elements: multiply each by the scale of its block"
DIVIDED = "elements are divided by their scales here: a number is its element times its scale"
TURNS = (
    "the scales are dealt out in turns: element 0 gets scale 0, element 1 gets scale 1, and so on. "
    "The elements of a block are neighbours"
)
GUESSED = (
    "the length of a block does not follow from the two shapes, because the last block of a row "
    "may be shorter: it is self.block"
)
KEPT = "these are the numbers of x: dequantize gets elements and scales, and uses nothing else"
KEPT_SCALES = (
    "the scales of the last quantize are used here: dequantize has to use those that it is given"
)


def powers_by(x, block, power_of):
    def safe(piece):
        magnitude = piece.abs().max().item()
        if not math.isfinite(magnitude):
            return NO_SCALE
        return max(power_of(piece, magnitude), LOWEST) if magnitude else LOWEST

    return pieces_of(x, block, safe).int()


def wrong_powers(x, block):
    finite = x.double().nan_to_num(0, 0, 0)
    right = powers_by(x, block, lambda piece, m: smallest_power(m))
    negative = (-right).clamp(-127, 127).where(right != NO_SCALE, right)
    most = smallest_power(finite.abs().max().item())
    of_rows = torch.tensor([smallest_power(row.abs().max().item())
                            for row in finite.reshape(-1, x.shape[-1])])  # fmt: skip
    found = {
        IN_FLOAT32: powers_by(x, block, lambda piece, m: power_in(torch.float32, m)),
        FLOOR: powers_by(x, block, lambda piece, m: math.floor(math.log2(m)) - 8),
        NEAREST: powers_by(x, block, lambda piece, m: to_nearest_power(m / 448)),
        SIGNED: powers_by(x, block, lambda piece, m: smallest_power(max(piece.max().item(), 0))),
        TO_ONE: powers_by(x, block, lambda piece, m: math.ceil(math.log2(m))),
        TO_256: powers_by(x, block, lambda piece, m: math.ceil(math.log2(m / 256))),
        TO_57344: powers_by(x, block, lambda piece, m: math.ceil(math.log2(m / 57344))),
        INVERSE: negative,
        ONE_MORE: powers_by(x, block, lambda piece, m: math.floor(math.log2(m / 448)) + 1),
        LEAST_126: right.clamp(min=-126),
    }
    if x.dtype == torch.bfloat16:
        found[IN_BFLOAT16] = powers_by(x, block, lambda piece, m: power_in(torch.bfloat16, m))
    if right.numel() > 1:
        found[WHOLE] = torch.full_like(right, most)
        found[OF_ROW] = of_rows.view(*x.shape[:-1], 1).expand(right.shape).int()
    return found


def power_in(dtype, magnitude) -> int:
    """Return the exponent that this dtype's arithmetic gives."""
    return int((torch.tensor(magnitude, dtype=dtype) / 448).log2().ceil())


def to_nearest_power(value) -> int:
    lower = math.floor(math.log2(value))
    return lower if value < 1.5 * 2.0**lower else lower + 1


def wrong_elements(x, block, powers):
    scale = 2.0 ** spread(powers, x, block).double()
    values = x.double()
    cast = lambda number: nearest(max(min(number, 448), -448))  # noqa: E731
    found = {UNDIVIDED: (values, cast), MULTIPLIED: (values * scale, cast),
             CUT: (values / scale, towards_zero)}  # fmt: skip
    is_number = powers.max() != NO_SCALE
    return {
        why: torch.tensor([of(y) for y in source.flatten().tolist()]).double().view(x.shape)
        for why, (source, of) in found.items()
        if is_number
    }


def towards_zero(number) -> float:
    below = bisect.bisect_right(NUMBERS, abs(number)) - 1
    return math.copysign(NUMBERS[below], number)


def wrong_back(x, powers, elements, scales, block):
    turns = scales.double().flatten().repeat(elements.numel())[: elements.numel()]
    return {
        UNSCALED: elements.double(),
        DIVIDED: elements.double() / (multiply(torch.ones_like(elements), scales, block)),
        TURNS: elements.double() * turns.view(elements.shape),
        KEPT_SCALES: elements.double() * 2.0 ** spread(powers, x, block).double(),
        GUESSED: multiply(elements, scales, -(-x.shape[-1] // scales.shape[-1])),
        KEPT: x.double(),
    }

"""A tensor in 8 bits a number, by blocks.

Where values are compared, every scale is a power of 2 and no number lies halfway between two codes:
then there is nothing to be rounded but what is asked. The truth goes block by block, in Python.
"""

import torch

from ...basics.closeness import close_in_float32
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone
from ..kit.values import NO_RETURN

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
FRACTIONS = (0.0, 0.25, -0.25, 0.375, -0.375)  # of a code, beside a whole number

ONE_SCALE = (
    "one scale is used for the whole tensor. Each block of `self.block` numbers has a scale of its "
    "own, or one large number spoils all others"
)
ONE_SCALES = (
    "all blocks have the same scale, from the largest number of all. Each block has a scale of its "
    "own, or one large number spoils all others"
)
BY_ROWS = (
    "each row has a scale. Blocks are pieces of the flattened tensor, whatever its rows: see "
    "x.flatten()"
)
SIGNED_MAX = (
    "the scale comes from the largest number. In some blocks the largest magnitude is that of a "
    "negative number: take magnitudes first"
)
WHOLE_MAX = "this is the largest magnitude itself: a scale is what a code of 1 is worth"
INVERSE = "this is the inverse of the scale: codes are multiplied by a scale to get numbers back"
BY_128 = (
    "the largest magnitude is divided by 128. Then the largest number has code 128, which an int8 "
    "does not have: it ends at 127"
)
BY_255 = (
    "the largest magnitude is divided by 255 or 256: these are the codes of an unsigned number. "
    "Here half of the codes are for negative numbers"
)
CUT = "the digits after the point are cut off: converting to int8 does not round"
CEILED = "the codes are rounded up: asked is the nearest whole number"
FLOORED = "the codes are rounded down: asked is the nearest whole number, also below 0"
PADDED = (
    "what fills up the last block is kept as well: there is one code for each number of x, and no "
    "more"
)
DROPPED = (
    "the last block is missing: it is shorter than the others, and needs codes and a scale, too"
)
ROUND_ROBIN = (
    "the scales are dealt out in turns: number 0 gets scale 0, number 1 gets scale 1, and so on. "
    "The numbers of a block lie one after another"
)
NO_SCALES = "these are the codes: each has to be multiplied by the scale of its block"
FLAT = "the numbers are right, but not in the shape of x: `shape` is given to `unpack`"
ZEROS = (
    "a block of zeros has scale 0. 0 / 0 is no number, so divide its numbers by something else. "
    "The scale itself stays 0"
)
TRANSPOSED = "x.flatten() goes through a transposed x row by row; its memory has another order"


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


def packed(x, block, scale_of=lambda piece: piece.abs().max() / 127, code=torch.round):
    """The truth, or what a misconception gives: (codes, scales)."""
    pieces = x.flatten().double().split(block)
    scales = [scale_of(piece) for piece in pieces]
    codes = [code(piece / scale) if scale else 0 * piece for piece, scale in zip(pieces, scales)]
    codes = torch.cat(codes).to(torch.int32).to(torch.int8)  # past 127, as an int8 goes on
    return codes, torch.stack(scales).float()


# ---- On a rank ---


def there_and_back(answer, shape, block, powers):
    x = make(shape, block, powers)
    before, eight_bits = x.clone(), answer(block)
    got = eight_bits.pack(x)
    found = {"changed": not torch.equal(x, before), "fault": fault_of(got)}
    if found["fault"] is None:
        codes, scales = got
        right = packed(x, block)
        found |= {"codes": codes, "scales": scales, "x": x, "right": right}
        is_zero = right[1] == 0
        found["zero_scales"] = scales[is_zero].tolist() if len(scales) == len(is_zero) else []
        back = answer(block).unpack(right[0].clone(), right[1].clone(), x.shape)
        found |= {"back": back if isinstance(back, torch.Tensor) else f"{back!r:.60}"}
    return found


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


def real_numbers(answer, count=1_000, block=64):
    """Random numbers with outliers: no number is off by more than half a scale."""
    torch.manual_seed(5)
    x = torch.randn(count)
    x[::97] *= 1_000
    eight_bits = answer(block)
    codes, scales = eight_bits.pack(x)
    back = eight_bits.unpack(codes, scales, x.shape)
    each = x.abs().split(block)
    half = torch.cat([(piece.max() / 254).expand(len(piece)) for piece in each])
    off = ((back - x).abs() / half).max().item() if back.shape == x.shape else float("inf")
    return {"most_off": off, "bytes": codes.nbytes + scales.nbytes, "count": count}


# ---- What is not right ---


def wrong_scales(trial, place):
    x, (_, right) = trial[place].x, trial[place].right
    block = trial.case.args[1]
    magnitude = x.abs().max().float()
    found = {
        SIGNED_MAX: packed(x, block, lambda piece: piece.max() / 127)[1],
        WHOLE_MAX: right * 127,
        INVERSE: 1 / right,
        BY_128: right * 127 / 128,
        BY_255: right * 127 / 255,
        DROPPED: right[:-1],
    }
    if x.dim() == 2:
        found[BY_ROWS] = x.abs().amax(1) / 127
        found[TRANSPOSED] = packed(x.t(), block)[1]
    if len(right) > 1:
        found[ONE_SCALE] = (magnitude / 127)[None]
        found[ONE_SCALES] = (magnitude / 127).expand(len(right)).clone()
    return found


def wrong_codes(trial, place):
    x, (right, scales) = trial[place].x, trial[place].right
    block = trial.case.args[1]
    whole = (x.flatten().double() / max(x.abs().max().item() / 127, 1e-30)).round()
    padded = torch.zeros(-(-x.numel() // block) * block, dtype=torch.int8)
    padded[: x.numel()] = right
    found = {
        CUT: packed(x, block, code=torch.trunc)[0],
        FLOORED: packed(x, block, code=torch.floor)[0],
        CEILED: packed(x, block, code=torch.ceil)[0],
        PADDED: padded,
        DROPPED: right[: x.numel() // block * block],
        ONE_SCALE: whole.to(torch.int8),
        BY_128: packed(x, block, lambda piece: piece.abs().max() / 128)[0],
        ROUND_ROBIN: in_turns(x, scales),
    }
    if x.dim() == 2:
        found[TRANSPOSED] = packed(x.t(), block)[0]
    return found


def in_turns(x, scales):
    count = x.numel()
    each = scales.repeat(-(-count // len(scales)))[:count].double()
    codes = x.flatten().double() / each.where(each > 0, 1)
    return codes.round().to(torch.int32).to(torch.int8)


def wrong_back(trial, place):
    x, (codes, scales) = trial[place].x, trial[place].right
    count, block = x.numel(), trial.case.args[1]
    right = true_back(trial, place)
    turns = scales.repeat(-(-count // len(scales)))[:count]
    each = scales.repeat_interleave(block)[:count]
    return {
        FLAT: right.flatten(),
        NO_SCALES: codes.float().view(x.shape),
        ROUND_ROBIN: (codes * turns).view(x.shape),
        "codes are divided by their scales here: a number is its code times its scale":
            (codes / each).view(x.shape),
        ONE_SCALE: (codes * scales[0]).view(x.shape),
        "codes are multiplied by the scale and divided by 127: the 127 is in the scale already":
            right / 127,
    }  # fmt: skip


def true_back(trial, place):
    x, (codes, scales) = trial[place].x, trial[place].right
    pieces = codes.double().split(trial.case.args[1])
    values = torch.cat([piece * scale for piece, scale in zip(pieces, scales.double())])
    return values.float().view(x.shape)


def told(trial) -> str:
    if trial.of("bytes"):
        return f"{trial[0].bytes:,} bytes, no number off by more than half a scale"
    return "codes, scales, and the numbers that come back"


def enough(found) -> bool:
    return found <= 1 + 1e-4  # of half a scale, which is computed in float32


EXERCISE = WarmExercise(
    "5.6",
    "EightBits",
    lab="small_states",
    cases=[
        *(Alone(name, there_and_back, case) for name, case in CASES.items()),
        Alone("1,000 random numbers, some of them large", real_numbers),
    ],
    work=alone,
    facts=[
        Holds("fault", lambda fault: fault is None, lambda fault: fault[0],
              lambda trial, place: trial[place].fault[1]),
        never("changed", "x has changed", "the numbers of x stay: make new tensors"),
        Equals("scales", lambda trial, place: trial[place].right[1], wrong_scales,
               same=close_in_float32),
        Holds("zero_scales", lambda scales: not any(scales),
              lambda scales: f"a block of zeros has scale {scales[0]:.3g}", ZEROS),
        Equals("codes", lambda trial, place: trial[place].right[0], wrong_codes),
        Holds("back", lambda back: isinstance(back, torch.Tensor), "unpack returned {}",
              lambda trial, place: NO_RETURN if trial[place].back == "None" else
              "unpack returns a tensor"),
        Holds("back", lambda back: back.dtype == torch.float32,
              lambda back: f"unpack gives {str(back.dtype).removeprefix('torch.')}",
              "what comes back is float32, as x was"),
        Equals("back", true_back, wrong_back, "what unpack gives", same=close_in_float32),
        Holds("most_off", enough, "a number is off by {:.3g} times half a scale",
              "a number's block decides its scale, and its code is the nearest whole number"),
        Holds("bytes", lambda count: count <= 1_000 + 4 * 16, "codes and scales take {:,} bytes",
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

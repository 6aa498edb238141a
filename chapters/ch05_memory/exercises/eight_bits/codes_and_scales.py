"""The codes and scales of exercise EightBits: the right ones and those of known mistakes."""

import torch

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
BY_RANGE = (
    "largest minus smallest is for codes that begin at the smallest number. Here code 0 is the "
    "number 0, on both sides of it"
)
COUNTED = "`block` is how many numbers a block has; it is not the number of blocks"
MEAN = "the scale comes from the mean magnitude; larger numbers have no code then"
AWAY = "the codes are rounded away from 0: asked is the nearest whole number"
KEPT = "these are the numbers of x: unpack is to make them of the codes and scales that it is given"
NOT_A_NUMBER = (
    "0 / 0 is no number, and what an int8 makes of that depends on the CPU: divide the numbers of "
    "such a block by something else"
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


def pack_blocks(x, block, scale_of=lambda piece: piece.abs().max() / 127, code=torch.round):
    """Return (codes, scales), or those of a mistake, given as another `scale_of` or `code`."""
    pieces = x.flatten().double().split(block)
    scales = [scale_of(piece) for piece in pieces]
    codes = [code(piece / scale) if scale else 0 * piece for piece, scale in zip(pieces, scales)]
    codes = torch.cat(codes).to(torch.int32).to(torch.int8)  # wraps around past 127
    return codes, torch.stack(scales).float()


# ---- Known mistakes ---


def wrong_scales(x, block):
    _, right = pack_blocks(x, block)
    magnitude = x.abs().max().float()
    found = {
        SIGNED_MAX: pack_blocks(x, block, lambda piece: piece.max() / 127)[1],
        BY_RANGE: pack_blocks(x, block, lambda piece: (piece.max() - piece.min()) / 255)[1],
        MEAN: pack_blocks(x, block, lambda piece: piece.abs().mean() / 127)[1],
        COUNTED: torch.stack([c.abs().max() for c in x.flatten().chunk(block)]) / 127,
        ZEROS: right.where(right > 0, 1),
        WHOLE_MAX: right * 127,
        INVERSE: 1 / right,
        BY_128: right * 127 / 128,
        BY_255: right * 127 / 255,
        DROPPED: right[:-1],
    }
    if x.dim() == 2:
        found[BY_ROWS] = x.abs().amax(1) / 127
        found[TRANSPOSED] = pack_blocks(x.t(), block)[1]
    if len(right) > 1:
        found[ONE_SCALE] = (magnitude / 127)[None]
        found[ONE_SCALES] = (magnitude / 127).expand(len(right)).clone()
    return found


def wrong_codes(x, block):
    right, scales = pack_blocks(x, block)
    whole = (x.flatten().double() / max(x.abs().max().item() / 127, 1e-30)).round()
    padded = torch.zeros(-(-x.numel() // block) * block, dtype=torch.int8)
    padded[: x.numel()] = right
    found = {
        CUT: pack_blocks(x, block, code=torch.trunc)[0],
        FLOORED: pack_blocks(x, block, code=torch.floor)[0],
        CEILED: pack_blocks(x, block, code=torch.ceil)[0],
        AWAY: pack_blocks(x, block, code=lambda x: x.sign() * x.abs().ceil())[0],
        PADDED: padded,
        DROPPED: right[: x.numel() // block * block],
        ONE_SCALE: whole.to(torch.int8),
        BY_128: pack_blocks(x, block, lambda piece: piece.abs().max() / 128)[0],
        ROUND_ROBIN: encode_round_robin(x, scales),
    }
    if x.dim() == 2:
        found[TRANSPOSED] = pack_blocks(x.t(), block)[0]
    return found


def encode_round_robin(x, scales):
    count = x.numel()
    each = scales.repeat(-(-count // len(scales)))[:count].double()
    codes = x.flatten().double() / each.where(each > 0, 1)
    return codes.round().to(torch.int32).to(torch.int8)


def wrong_back(x, codes, scales, block):
    count, right = x.numel(), true_back(codes, scales, block)
    turns = scales.repeat(-(-count // len(scales)))[:count]
    each = scales.repeat_interleave(block)[:count]
    found = {
        NO_SCALES: codes.float(),
        KEPT: x,
        ROUND_ROBIN: codes * turns,
        "codes are divided by their scales here: a number is its code times its scale":
            codes / each,
        ONE_SCALE: codes * scales[0],
        "codes are multiplied by the scale and divided by 127: the 127 is in the scale already":
            right / 127,
    }  # fmt: skip
    return {FLAT: right} | {why: wrong.view(x.shape) for why, wrong in found.items()}


def true_back(codes, scales, block):
    """Return the numbers for which the codes stand, as a flat tensor."""
    pieces = codes.double().split(block)
    return torch.cat([piece * scale for piece, scale in zip(pieces, scales.double())]).float()

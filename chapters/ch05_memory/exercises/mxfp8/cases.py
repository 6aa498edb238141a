"""The cases, and the code that runs next to the answer."""

import math

import torch

from coursekit.kit.results import NO_RETURN

E4M3, E8M0 = torch.float8_e4m3fn, torch.float8_e8m0fnu
FLOAT, HALF = "float32", "bfloat16"  # names, which a table can hold
INF, NAN = math.inf, math.nan
JUST_ABOVE = 448 * 1024 + 2**-5  # the next number of float32

# Each case: shape, block, the largest magnitude of each block, row after row, and the dtype's name.
CASES = {
    "4 numbers, a block": ((4,), 4, (40.0,), FLOAT),
    "8 numbers, blocks of 4": ((8,), 4, (600.0, 460.0), FLOAT),
    "shape 2 × 5, blocks of 2": ((2, 5), 2, (900.0, 0.02, 448.0, 7.0, 500.0, 1e-5), FLOAT),
    "shape 2 × 1 × 7, blocks of 4": ((2, 1, 7), 4, (1.0, 300.0, 57344.0, 0.3), FLOAT),
    "fewer numbers than a block": ((5,), 32, (40.0,), FLOAT),
    "a block of zeros": ((3, 4), 2, (5.0, 0.0, 0.0, 0.0, 0.7, 1e4), FLOAT),
    "bfloat16, shape 2 × 40, blocks of 32": ((2, 40), 32, (450.0, 0.11, 1000.0, 3e-4), HALF),
    "numbers from 1e-42 to 3e38": ((12,), 4, (3e38, 1e-42, 1e-36), FLOAT),
    "just above 448 × 1,024": ((4,), 4, (JUST_ABOVE,), FLOAT),
    "shape 2 × 3 × 3, permuted, blocks of 2": ((2, 3, 3), 2, (9.0, 600.0) * 6, FLOAT),
    "one inf and one nan": ((2, 8), 4, (INF, 2.0, 3.0, NAN), FLOAT),
}


def make(shape, block, largest, dtype) -> torch.Tensor:
    """Return a tensor with these largest magnitudes; in blocks with an odd index it is negative."""
    source = torch.Generator().manual_seed(len(largest) + block)
    rows = torch.empty(math.prod(shape[:-1]), shape[-1])
    per_row = -(-shape[-1] // block)
    for number, magnitude in enumerate(largest):
        row, at = divmod(number, per_row)
        piece = rows[row, at * block : (at + 1) * block]
        finite = magnitude if math.isfinite(magnitude) else 1.0
        powers = torch.randint(-14, 0, piece.shape, generator=source)
        piece.copy_((2 * torch.rand(piece.shape, generator=source) - 1) * 2.0**powers * finite)
        piece[len(piece) // 2] = -magnitude if number % 2 else magnitude
    x = rows.view(shape).to(getattr(torch, dtype))
    return x.transpose(0, 1).contiguous().transpose(0, 1) if len(shape) == 3 else x


def make_stored(shape, block, largest, dtype):
    """Return elements and scales for `dequantize`, which differ from those of x."""
    source = torch.Generator().manual_seed(7 + len(largest) + block)
    codes = torch.randint(1, 127, shape, generator=source, dtype=torch.uint8)
    codes += 128 * torch.randint(0, 2, shape, generator=source, dtype=torch.uint8)
    per_row = -(-shape[-1] // block)
    powers = torch.randint(-20, 20, (*shape[:-1], per_row), generator=source)
    return codes.view(E4M3), (powers + 127).to(torch.uint8).view(E8M0)


def there_and_back(answer, *args):
    x = make(*args)
    before, mxfp8 = x.clone(), answer(args[1])
    got = mxfp8.quantize(x)
    found = {
        "changed": not torch.equal(x.nan_to_num(), before.nan_to_num()),
        "fault": fault_of(got, x, args[1]),
    }
    if found["fault"]:
        return found
    elements, scales = got
    is_number = scales.view(torch.uint8) != 255
    each = is_number.repeat_interleave(args[1], -1)[..., : x.shape[-1]]
    came = mxfp8.dequantize(*make_stored(*args))
    found |= {
        "powers": scales.view(torch.uint8).int() - 127,
        "elements": elements.double().where(each, 0.0),
        "kind": str(came.dtype) if isinstance(came, torch.Tensor) else f"{came!r:.60}",
    }
    if isinstance(came, torch.Tensor):
        found["back"] = came.detach().double()
        again = mxfp8.dequantize(elements, scales)
        found["is_number"] = again.isfinite().int()
    return found


def fault_of(got, x, block):
    if got is None:
        return ("quantize returned None", NO_RETURN)
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        kind = type(got).__name__
        return (f"quantize returned {kind}", "quantize returns two tensors: elements and scales")
    shapes = (x.shape, (*x.shape[:-1], -(-x.shape[-1] // block)))
    for name, tensor, dtype, shape in zip(("elements", "scales"), got, (E4M3, E8M0), shapes):
        if not isinstance(tensor, torch.Tensor):
            return (f"{name} is {tensor!r:.40}", f"{name} is a tensor of torch")
        if tensor.dtype != dtype:
            names = [str(one).removeprefix("torch.") for one in (tensor.dtype, dtype)]
            is_swapped = tensor.dtype == E8M0
            why = "return the elements first, then the scales" if is_swapped else BYTES[name]
            return (f"{name} is {names[0]}, expected {names[1]}", why)
        if tuple(tensor.shape) != tuple(shape):
            what = f"{name} has the shape {list(tensor.shape)}, expected {list(shape)}"
            is_one = tuple(tensor.shape) == (*x.shape[:-1], 1)
            return (what, ONE_A_ROW if is_one else SHAPES[name])
    return None


BYTES = {
    "elements": "an element takes one byte: .to(torch.float8_e4m3fn) converts a tensor",
    "scales": "a scale takes one byte: .to(torch.float8_e8m0fnu) converts a power of two",
}
ONE_A_ROW = "a row has one scale here: a block has self.block numbers, which need not be 32"
SHAPES = {
    "elements": "there is one element per number of x, in the shape of x. Numbers that fill up the "
    "last block of a row are not part of the result",
    "scales": "each row has its own blocks, and the last block of a row may be shorter. So the "
    "last dimension is the number of blocks of a row, rounded up, and the others are those of x",
}


def describe_result(trial) -> str:
    of = trial[0]
    return f"{of.elements.numel()} elements, {of.powers.numel()} scales, and the way back"

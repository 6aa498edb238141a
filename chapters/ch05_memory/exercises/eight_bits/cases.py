"""The cases, and the code that runs next to the answer."""

import torch

from coursekit.kit.results import NO_RETURN
from pedagogy_lib.basics.torch_private import OperatorMode

# Each case: shape, block size, and for each block its scale as a power of 2, or None for zeros.
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

COUNT, BLOCK = 1_000, 64  # the number of random numbers, and their block size

FRACTIONS = (0.0, 0.25, -0.25, 0.375, -0.375)  # the distance from a whole number, in codes


def make(shape, block, powers) -> torch.Tensor:
    """Return a tensor in which the largest magnitude of each block is 127 times a power of 2.

    In blocks with an odd index, the number with this magnitude is negative.
    """
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


def make_codes_and_scales(shape, block, powers):
    """Return codes and scales for `unpack`; the codes differ from those of x."""
    source = torch.Generator().manual_seed(1 + len(powers) + block)
    count = torch.Size(shape).numel()
    codes = torch.randint(-127, 128, (count,), generator=source).to(torch.int8)
    scales = torch.tensor([0.0 if power is None else 2.0**power for power in powers])
    for number, power in enumerate(powers):
        codes[number * block : (number + 1) * block] *= power is not None
    return codes, scales


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
        back = answer(block).unpack(*make_codes_and_scales(shape, block, powers), x.shape)
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


def make_outlier_tensor() -> torch.Tensor:
    x = torch.randn(COUNT, generator=torch.Generator().manual_seed(5))
    x[::97] *= 1_000
    return x


def real_numbers(answer):
    """Pack and unpack random numbers with outliers."""
    x, eight_bits = make_outlier_tensor(), answer(BLOCK)
    codes, scales = eight_bits.pack(x)
    came = eight_bits.unpack(codes, scales, x.shape)
    return {"came_back": came, "bytes": codes.nbytes + scales.nbytes}


class Casts(OperatorMode):
    """A mode that notes whether a nan is converted to an integer."""

    of_nan = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        whole = isinstance(result, torch.Tensor) and not result.is_floating_point()
        if whole and func.name() in ("aten::_to_copy", "aten::copy_"):
            self.of_nan |= any(isinstance(x, torch.Tensor) and bool(x.isnan().any()) for x in args)
        return result


def describe_result(trial) -> str:
    if trial.collect_values("bytes"):
        return f"{trial[0].bytes:,} bytes, no number off by more than half a scale"
    return "codes, scales, and the numbers that come back"

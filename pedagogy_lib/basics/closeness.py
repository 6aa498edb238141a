"""The one comparison of numbers in this course: equal up to rounding.

The same sum in a different order is rounded differently. Every processor, every number of threads
and every way to share work among ranks has its own order, so equal results may differ in their last
digits. The difference depends on the terms of a sum and not only on its result: it grows with the
magnitude of the numbers and with the length and the depth of their sums.

- Magnitude: a difference is given as a share of the largest number among the expected ones.
- Length and depth: roundings go up and down, so a sum of n numbers is typically off by √n of them,
  and each layer adds its own (Higham and Mary 2019). 4,096 numbers and 16 layers make 1,000
  roundings. A float64 has 16 decimal digits, a quarter of which is left to rounding; that is room
  for 8,000 roundings. In float32, a quarter of the digits is room for 54, which is enough for a few
  operations or for whole numbers. A number that has been a float32 is off by up to 6e-8, which is
  30,000 times the tolerance of float64.
- Steps: each training step begins with the roundings of all steps before it.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from numbers import Real

import torch
from torch import Tensor

DIGITS_KEPT = 0.75  # of the digits that a number has
THROUGH_FLOAT32 = 16 * torch.finfo(torch.float32).eps  # a few float32 operations, or one factor


def close(got, wanted, steps=1, scale=None) -> bool:
    """Return whether `got` equals `wanted` up to rounding.

    got, wanted  numbers, tensors, or lists or dicts of them, each of which is compared separately.
                 Shapes and dtypes must be equal, too. Whole numbers must be equal exactly, and
                 None is close only to None
    steps        number of training steps that led to these numbers
    scale        magnitude that a difference is divided by; the largest in `wanted` by default, or 1
                 if `wanted` is all zeros
    """

    def is_close(a, b):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if not b.is_floating_point():
            return torch.equal(a, b)
        return is_rounding(relative_gap(a, b, scale), rounding(b.dtype, steps))

    return agree(got, wanted, is_close)


def close_in_float32(got, wanted) -> bool:
    """Return whether both agree up to float32's rounding, as some numbers may have been float32."""

    def is_close(a, b):
        return a.shape == b.shape and relative_gap(a, b) <= THROUGH_FLOAT32

    return agree(got, wanted, is_close)


def agree(got, wanted, is_close) -> bool:
    """Return whether `is_close` holds for every pair of numbers and everything else is equal."""
    if is_whole(got) and is_whole(wanted):
        return got == wanted
    if is_number(got) and is_number(wanted):
        return is_close(ensure_tensor(got), ensure_tensor(wanted))
    if isinstance(got, Mapping) and isinstance(wanted, Mapping):
        return got.keys() == wanted.keys() and all(
            agree(got[key], wanted[key], is_close) for key in wanted
        )
    if is_list(got) and is_list(wanted):
        got, wanted = list(got), list(wanted)
        return len(got) == len(wanted) and all(map(partial(agree, is_close=is_close), got, wanted))
    return got is None and wanted is None


def is_whole(x) -> bool:
    return isinstance(x, int)


def is_number(x) -> bool:
    return isinstance(x, (Tensor, Real))


def is_list(x) -> bool:
    return isinstance(x, Iterable) and not isinstance(x, (Tensor, Mapping, str, bytes))


def is_rounding(gap, tolerance) -> bool:
    """Return whether `gap` is within `tolerance`; tests wrap this function to record margins."""
    return gap <= tolerance


def rounding(dtype=torch.float64, steps=1) -> float:
    """Return the largest relative difference that counts as rounding.

    dtype  the numbers' dtype; of whole numbers no difference counts as rounding, so it returns 0
    steps  number of training steps that led to the numbers; each allows as much again
    """
    return steps * torch.finfo(dtype).eps ** DIGITS_KEPT if dtype.is_floating_point else 0.0


def relative_gap(got, wanted, scale=None) -> float:
    """Return the largest difference as a share of the largest magnitude in `wanted`, or of `scale`.

    The result is 0 if all numbers are equal, and infinite if one of them is not a number.
    scale  a number, or a tensor with one per element
    """
    found = gaps(got, wanted, scale)
    return found.max().item() if found.numel() else 0.0


def gaps(got, wanted, scale=None) -> Tensor:
    """Return the relative gap of each element, in the shape of `wanted`; see `relative_gap`."""
    got, wanted = (ensure_tensor(x).detach().cpu().double() for x in (got, wanted))
    off = torch.where(got == wanted, 0.0, (got - wanted).abs())
    if scale is None:
        scale = largest(wanted) or 1.0
    return torch.where(off == 0, 0.0, off / ensure_tensor(scale).cpu()).nan_to_num(
        torch.inf, torch.inf
    )


def largest(x) -> float:
    """Return the largest finite magnitude; 0 if there is none."""
    return x.where(x.isfinite(), 0.0).abs().max().item() if x.numel() else 0.0


def first_off(got, wanted) -> tuple[int, ...]:
    """Return the indices of the first element off by more than rounding; shapes must be equal."""
    is_whole = not (got.is_floating_point() or wanted.is_floating_point())  # float64 may lack them
    is_off = got != wanted if is_whole else gaps(got, wanted) > rounding(wanted.dtype)
    return tuple(is_off.nonzero()[0].tolist())


def format_gap(got, wanted) -> str:
    """Return, for a message, the largest absolute difference, or how shapes or dtypes differ."""
    if got.shape != wanted.shape:
        return f"shapes {list(got.shape)}, {list(wanted.shape)}"
    if got.dtype != wanted.dtype:
        return f"dtypes {got.dtype}, {wanted.dtype}"
    return f"{(got - wanted).abs().max():.2g}"


def ensure_tensor(x) -> Tensor:
    """Return `x` as a tensor; a plain Python number becomes a float64."""
    return x if isinstance(x, Tensor) else torch.tensor(x, dtype=torch.float64)

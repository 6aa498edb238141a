"""The one comparison of numbers in this course: equal but for rounding.

The same sum in another order is rounded in another way. Every processor, every number of threads
and every way to share work among ranks has an order of its own, so equal results may differ in
their last digits. How far depends on what is added, not on the result alone: the difference grows
with the magnitude of the numbers, and with the length and the depth of their sums.

- Magnitude: a difference is told as a share of the largest number that is compared with.
- Length and depth: roundings go up and down, so a sum of n numbers is typically off by √n of them,
  and each layer adds its own (Higham and Mary 2019). 4,096 numbers and 16 layers make 1,000
  roundings. A float64 has 16 decimal digits. A quarter of them is left to rounding, which is room
  for 8,000. In float32 a quarter is room for 54: enough for a few operations, or for whole numbers.
  What has been a float32 is off by up to 6e-8, 30,000 times what a float64 is allowed.
- Steps: each step of a training begins with the roundings of all steps before it.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from numbers import Real

import torch
from torch import Tensor

DIGITS_KEPT = 0.75  # of those that a number has
THROUGH_FLOAT32 = 16 * torch.finfo(torch.float32).eps  # some operations in float32, or one factor


def close(got, wanted, steps=1, scale=None) -> bool:
    """Whether `got` is `wanted` but for rounding.

    got, wanted  numbers, tensors, or lists or dicts of them, each compared on its own. Shapes and
                 dtypes have to be equal, too. Whole numbers have to be equal exactly; None is
                 close to None alone
    steps        how many training steps led to these numbers
    scale        what a difference is compared with; the largest magnitude in `wanted`, or 1 if
                 that is all zeros
    """

    def is_close(a, b):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if not b.is_floating_point():
            return torch.equal(a, b)
        return is_rounding(relative_gap(a, b, scale), rounding(b.dtype, steps))

    return agree(got, wanted, is_close)


def close_in_float32(got, wanted) -> bool:
    """Whether they agree as far as float32 can tell: some numbers may have been float32 before."""

    def is_close(a, b):
        return a.shape == b.shape and relative_gap(a, b) <= THROUGH_FLOAT32

    return agree(got, wanted, is_close)


def agree(got, wanted, is_close) -> bool:
    """Whether all their numbers are close, and everything else is equal."""
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
    """The decision. It is a function of its own so that tests can note how narrow it was."""
    return gap <= tolerance


def rounding(dtype=torch.float64, steps=1) -> float:
    """The largest relative difference that counts as rounding; 0 for whole numbers."""
    return steps * torch.finfo(dtype).eps ** DIGITS_KEPT if dtype.is_floating_point else 0.0


def relative_gap(got, wanted, scale=None) -> float:
    """The largest difference, as a share of the largest magnitude in `wanted`, or of `scale`.

    0 if all are equal; infinite if one of them is not a number.
    scale  a number, or a tensor with one for each element
    """
    found = gaps(got, wanted, scale)
    return found.max().item() if found.numel() else 0.0


def gaps(got, wanted, scale=None) -> Tensor:
    """What `relative_gap` is the largest of: one for each element, in the shape of `wanted`."""
    got, wanted = (ensure_tensor(x).detach().cpu().double() for x in (got, wanted))
    off = torch.where(got == wanted, 0.0, (got - wanted).abs())
    if scale is None:
        scale = largest(wanted) or 1.0
    return torch.where(off == 0, 0.0, off / ensure_tensor(scale).cpu()).nan_to_num(
        torch.inf, torch.inf
    )


def largest(x) -> float:
    """The largest finite magnitude; 0 if there is none."""
    return x.where(x.isfinite(), 0.0).abs().max().item() if x.numel() else 0.0


def first_off(got, wanted) -> tuple[int, ...]:
    """The indices of the first element that is off by more than rounding; both have one shape."""
    is_off = gaps(got, wanted) > rounding(wanted.dtype)
    return tuple(is_off.nonzero()[0].tolist())


def format_gap(got, wanted) -> str:
    """The largest absolute difference; or how shapes or dtypes differ. For a message."""
    if got.shape != wanted.shape:
        return f"shapes {list(got.shape)}, {list(wanted.shape)}"
    if got.dtype != wanted.dtype:
        return f"dtypes {got.dtype}, {wanted.dtype}"
    return f"{(got - wanted).abs().max():.2g}"


def ensure_tensor(x) -> Tensor:
    """A plain Python number becomes a float64."""
    return x if isinstance(x, Tensor) else torch.tensor(x, dtype=torch.float64)

"""The one comparison of numbers in this course: equal but for rounding.

The same sum in another order is rounded in another way. Every processor, every number of threads
and every way to share work among ranks has an order of its own, so equal results may differ in
their last digits. How far depends on what is added, not on the result alone: the difference grows
with the magnitude of the numbers, and with the length and the depth of their sums.

- Magnitude: a difference is told as a share of the largest number that is compared with.
- Length and depth: roundings go up and down, so a sum of n numbers is typically off by √n of them,
  and each layer adds its own (Higham and Mary 2019). 4,096 numbers and 16 layers make 1,000
  roundings. A float64 has 16 decimal digits. A quarter of them is left to rounding, which is room
  for 8,000. A number that went through float32 on its way is off 10,000 times more.
- Steps: each step of a training begins with the roundings of all steps before it.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

DIGITS_KEPT = 0.75  # of those that a number has
THROUGH_FLOAT32 = 16 * torch.finfo(torch.float32).eps  # some operations in float32, or one factor


def close(got, wanted, steps=1, scale=None) -> bool:
    """Whether `got` is `wanted` but for rounding.

    got, wanted  numbers, tensors, or lists or dicts of them; shapes and dtypes have to be equal,
                 too. Whole numbers have to be equal exactly; None is close to None alone
    steps        how many steps of training they have come through
    scale        what a difference is compared with; the largest magnitude in each of `wanted`
    """
    if isinstance(wanted, Mapping):
        return got.keys() == wanted.keys() and all(
            close(got[key], wanted[key], steps, scale) for key in wanted
        )
    if isinstance(wanted, Iterable) and not isinstance(wanted, Tensor):
        got, wanted = list(got), list(wanted)
        pairs = zip(got, wanted)
        return len(got) == len(wanted) and all(close(a, b, steps, scale) for a, b in pairs)
    if got is None or wanted is None:
        return got is wanted
    got, wanted = as_tensor(got), as_tensor(wanted)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    if not wanted.is_floating_point():
        return torch.equal(got, wanted)
    return is_rounding(relative_gap(got, wanted, scale), rounding(wanted.dtype, steps))


def is_rounding(gap, tolerance) -> bool:
    """The decision. In a function of its own, so that tests can note how narrow it was."""
    return gap <= tolerance


def rounding(dtype=torch.float64, steps=1) -> float:
    """The largest relative difference that counts as rounding; 0 for whole numbers."""
    return steps * torch.finfo(dtype).eps ** DIGITS_KEPT if dtype.is_floating_point else 0.0


def relative_gap(got, wanted, scale=None) -> float:
    """The largest difference, as a share of the largest magnitude in `wanted`, or of `scale`.

    0 if all are equal; infinite if one of them is not a number, or if `wanted` is all zeros.
    scale  a number, or a tensor with one for each element
    """
    found = gaps(got, wanted, scale)
    return found.max().item() if found.numel() else 0.0


def gaps(got, wanted, scale=None) -> Tensor:
    """The same for each element, in their shape."""
    got, wanted = (as_tensor(x).detach().cpu().double() for x in (got, wanted))
    off = torch.where(got == wanted, 0.0, (got - wanted).abs())
    if scale is None:
        scale = wanted.where(wanted.isfinite(), 0.0).abs().max() if wanted.numel() else 1.0
    return torch.where(off == 0, 0.0, off / scale).nan_to_num(torch.inf, torch.inf)


def first_off(got, wanted) -> tuple[int, ...]:
    """The place of the first element that is off by more than rounding; both of one shape."""
    is_off = gaps(got, wanted) > rounding(wanted.dtype)
    return tuple(is_off.nonzero()[0].tolist())


def close_in_float32(got, wanted) -> bool:
    """Whether they agree as far as float32 does: something has gone through it on its way."""
    same_shape = as_tensor(got).shape == as_tensor(wanted).shape
    return same_shape and relative_gap(got, wanted) <= THROUGH_FLOAT32


def told_gap(got, wanted) -> str:
    """The largest difference as it stands, for a message."""
    if got.shape != wanted.shape:
        return f"shapes {list(got.shape)}, {list(wanted.shape)}"
    return f"{(got - wanted).abs().max():.2g}"


def as_tensor(x) -> Tensor:
    """A number of Python's is a float64."""
    return x if isinstance(x, Tensor) else torch.tensor(x, dtype=torch.float64)

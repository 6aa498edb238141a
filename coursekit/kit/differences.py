"""Where two values differ, in words."""

from collections.abc import Mapping
from numbers import Real

import torch

from pedagogy_lib.basics.closeness import as_tensor, close, first_off
from pedagogy_lib.basics.units import brief


def difference(called, got, wanted, same=close) -> str:
    """How a value, called so, is wrong: `the bias at [2] is 3, expected 6`.

    called  of a dict's values, may end in the word that leads to a name, if that is not "of"
    same    what says of two values whether they are equal
    """
    if isinstance(wanted, Mapping) and isinstance(got, Mapping) and got.keys() == wanted.keys():
        return difference_by_name(called, got, wanted, same)
    if are_lists(got, wanted):
        first = next(k for k, pair in enumerate(zip(got, wanted)) if not same(*pair))
        return difference(f"{called}[{first}]", got[first], wanted[first], same)
    return f"{called} {first_difference(got, wanted)}"


def difference_by_name(called, got, wanted, same) -> str:
    wrong = [name for name in wanted if not same(got[name], wanted[name])]
    fine = [name for name in wanted if name not in wrong]
    first, *others = wrong
    led = called if called.endswith(LEADS) else f"{called} of"
    that = f"that {led.split()[-1]}"
    told = difference(f"{led} {first}", got[first], wanted[first], same)
    if others:
        told += f"; wrong is {that} {some_of(others)}, too"
    return told + (f"; right is {that} {some_of(fine)}" if fine else "")


def some_of(names) -> str:
    """Up to six names, and how many more there are."""
    more = len(names) - 6
    return ", ".join(names[:6]) + (f" and {more} more" if more > 0 else "")


LEADS = (" after", " for")  # as in "the gradient after the first call"


def are_lists(got, wanted) -> bool:
    kinds = (list, tuple)
    return isinstance(got, kinds) and isinstance(wanted, kinds) and len(got) == len(wanted)


def first_difference(got, wanted) -> str:
    if kind_of(got) != kind_of(wanted) or not is_numeric(wanted):
        return f"is {kind_of(got)}, expected {kind_of(wanted)}"
    got, wanted = as_tensor(got), as_tensor(wanted)
    first = first_off(got, wanted)
    at = f"at {list(first)} " if first else ""
    return f"{at}is {got[first].item():.8g}, expected {wanted[first].item():.8g}"


def kind_of(x) -> str:
    """`float64[2, 3]`, `a number`, or the value itself, as far as it fits."""
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    return "a number" if isinstance(x, Real) and not isinstance(x, bool) else brief(x, 60)


def is_numeric(x) -> bool:
    return isinstance(x, (torch.Tensor, Real))


def ratio(got, wanted) -> float | None:
    """How many times `wanted` this is; None if it is not, or if these are no numbers."""
    if not (is_numeric(got) and is_numeric(wanted)):
        return None
    got, wanted = as_tensor(got).flatten(), as_tensor(wanted).flatten()
    are_alike = got.shape == wanted.shape and got.dtype == wanted.dtype
    square = (wanted @ wanted).item() if are_alike else 0.0
    factor = (got @ wanted).item() / square if square else 0.0
    return factor if factor and close(got, factor * wanted) else None


def recognise(got, guesses) -> str:
    """The first sentence in {sentence: what that misconception gives} that fits, or ""."""
    return next((why for why, wrong in guesses.items() if close(got, wrong)), "")


def told(numbers) -> str:
    return ", ".join(f"{x:.4g}" for x in numbers.tolist())

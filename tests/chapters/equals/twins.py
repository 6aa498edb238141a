"""Functions of the labs next to what their docstrings say they equal, under odd but legal input.

A twin is such a function. For each condition, its `prepare` returns two functions without
arguments, ours and theirs, each with fresh copies of the same input. The outcome is EQUAL, or the
words of the error with which ours refuses, or the words of its docstring that exclude the
condition. There is no fourth: ours is never silently different.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from helpers import load_solved_lab

from pedagogy_lib.basics.closeness import agree, gaps, rounding

EQUAL = "equal"
MOST_WORSE = 3  # times the error of theirs, where both are held against float64
SIZES = (2, 1, 3, 4)  # numbers of ranks; `make test` takes the first


@dataclass(frozen=True)
class Excluded:
    """A condition that these words of the docstring exclude."""

    words: str


@dataclass(frozen=True)
class Twin:
    """A function or class of a lab, and what it is compared with.

    name        the lab and the function: "collectives.all_reduce_ring"
    conditions  {condition: EQUAL, words of the error that refuses it, or `Excluded`}
    prepare     (condition) -> ours, theirs; or ours, theirs, exact, where exact is in float64
    sizes       the numbers of ranks that it is tried on
    """

    name: str
    conditions: dict[str, str | Excluded] = field(repr=False)
    prepare: Callable = field(repr=False)
    sizes: tuple[int, ...] = SIZES

    def __str__(self):
        return self.name

    def docstring(self) -> str:
        """Return what the function says of itself, on one line."""
        lab, *names = self.name.split(".")
        found = load_solved_lab(lab)
        for name in names:
            found = getattr(found, name)
        return " ".join(inspect.getdoc(found).split())

    def outcomes(self, names) -> dict[str, str]:
        """Return the outcome of each condition on this rank: EQUAL, or what is different."""
        return {name: compare(*self.prepare(name)) for name in names}


def compare(ours, theirs, exact=None) -> str:
    wanted = theirs()
    try:
        found = ours()
    except (ValueError, RuntimeError, TypeError, LookupError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    if exact is None:
        return EQUAL if agree(found, wanted, is_close) else f"differs: {found}, {wanted}"[:400]
    if [(x.shape, x.dtype) for x in found] != [(x.shape, x.dtype) for x in wanted]:
        return "differs in shapes or dtypes"
    right = exact()
    off, allowed = worst_gap(found, right), worst_gap(wanted, right)
    if off <= MOST_WORSE * allowed < 1:
        return EQUAL
    return f"off by {off:.2g}, theirs by {allowed:.2g}"


def is_close(found, wanted) -> bool:
    """Return whether two tensors are equal up to the roundings of their dtype."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if wanted.is_complex():
        found, wanted = torch.view_as_real(found), torch.view_as_real(wanted)
    if not wanted.is_floating_point():
        return torch.equal(found, wanted)
    if not torch.equal(found.isnan(), wanted.isnan()):
        return False
    found, wanted = (x.where(~x.isnan(), 0) for x in (found, wanted))
    return bool((gaps(found, wanted) <= rounding(wanted.dtype)).all())


def worst_gap(found, exact) -> float:
    """Return the largest relative error among several tensors, at least half of a rounding."""
    return max(
        max(gaps(a, b).max().item(), torch.finfo(a.dtype).eps / 2)
        for a, b in zip(found, exact, strict=True)
    )

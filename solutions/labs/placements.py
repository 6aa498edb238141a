# Built from chapters/ch07_tensor_parallel/labs/placements.py by `make build`.
"""Placements of a tensor, in the words of DTensor, found by comparing all ranks' parts.

*Replicate*: each rank has the same whole tensor. *Shard*: each rank has a part. *Partial*: each
rank has a summand as large as the whole tensor, and only the sum is right.
"""

from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from pedagogy_lib.basics.closeness import close, close_in_float32

REPLICATE, SHARD, PARTIAL = PLACEMENTS = ("Replicate", "Shard", "Partial")


class LocalMatrix(NamedTuple):
    """One rank's part of a matrix.

    values     rows of numbers
    placement  one of `PLACEMENTS`; None if none of them fits the ranks' numbers
    shape      of the whole matrix
    start      (row, column) of the whole matrix at which this rank's part begins
    is_right   whether all ranks together have the matrix that one process has
    """

    values: tuple[tuple[float, ...], ...]
    placement: str | None
    shape: tuple[int, int]
    start: tuple[int, int]
    is_right: bool


def place_parts(parts: list[Tensor], expected: Tensor) -> list[LocalMatrix]:
    """Place each rank's part; `parts` are all ranks' matrices, `expected` is one process's."""
    whole, origin = tuple(expected.shape), (0, 0)
    starts = [origin] * len(parts)
    if all(part.shape == expected.shape for part in parts):
        placement, is_right = classify_placement(parts, expected)
    elif (dim := find_cut_dim(parts, whole)) is not None:
        placement, is_right = SHARD, is_close(torch.cat(parts, dim), expected)
        ends = accumulate((part.shape[dim] for part in parts), initial=0)
        starts = [(end, 0) if dim == 0 else (0, end) for end in ends]
    else:
        placement, is_right = None, False
    return [
        LocalMatrix(tuple(map(tuple, part.tolist())), placement, whole, start, is_right)
        for part, start in zip(parts, starts)
    ]


def classify_placement(parts, expected) -> tuple[str | None, bool]:
    """Return the placement of parts as large as the whole, and whether they are right.

    Equal summands look like replicas; only their sum tells the two apart.
    """
    are_equal = all(torch.equal(part, parts[0]) for part in parts)
    if are_equal and is_close(parts[0], expected):
        return REPLICATE, True
    if is_close(sum(part.double() for part in parts), expected):
        return PARTIAL, True
    return (REPLICATE if are_equal else None), False


def find_cut_dim(parts, whole) -> int | None:
    """Return the dim along which the parts join to the shape `whole`, or None if there is none."""
    for dim in (0, 1):
        others_fit = all(part.shape[1 - dim] == whole[1 - dim] for part in parts)
        if others_fit and sum(part.shape[dim] for part in parts) == whole[dim]:
            return dim
    return None


def is_close(x, y) -> bool:
    """Return whether x and y agree up to rounding: in float64 if both have it, else in float32."""
    if x.dtype == y.dtype == torch.float64:
        return close(x, y)
    return close_in_float32(x.double(), y.double())


def join_parts(parts: list[Tensor], dim, is_cut) -> Tensor:
    """Return the whole matrix; equal parts are copies of it, unless `is_cut` says otherwise."""
    alike = all(part.shape == parts[0].shape and torch.equal(part, parts[0]) for part in parts)
    return parts[0] if alike and not is_cut else torch.cat(parts, dim)

"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.tables import tabulate

from .cases import BLOCK, CASES, make, make_codes_and_scales, make_outlier_tensor, there_and_back
from .codes_and_scales import pack_blocks, true_back, wrong_back, wrong_codes, wrong_scales


@tabulate(lambda: list(CASES.values()))
def compute_right_and_wrong(shape, block, powers) -> dict:
    """Return the right codes, scales and unpacked numbers, and those of mistakes."""
    x, stored = make(shape, block, powers), make_codes_and_scales(shape, block, powers)
    return {
        "right": pack_blocks(x, block),
        "back": true_back(*stored, block).view(x.shape),
        "wrong scales": wrong_scales(x, block),
        "wrong codes": wrong_codes(x, block),
        "wrong back": wrong_back(x, *stored, block),
    }


def make_lookup(name):
    return lambda trial, place: compute_right_and_wrong(*trial.case.args)[name]


def compute_known_values(case, place) -> dict:
    if case.work is not there_and_back:
        return {}
    shape, block, powers = case.args
    return {
        "x": make(shape, block, powers),
        "right": compute_right_and_wrong(shape, block, powers)["right"],
    }


def most_off(came) -> float:
    """Return the largest error of a number, as a multiple of half a scale."""
    x = make_outlier_tensor()
    half = torch.cat([(piece.max() / 254).expand(len(piece)) for piece in x.abs().split(BLOCK)])
    return ((came - x).abs() / half).max().item() if came.shape == x.shape else float("inf")


def enough(came) -> bool:
    return most_off(came) <= 1 + 1e-4  # a margin, because scales are computed in float32

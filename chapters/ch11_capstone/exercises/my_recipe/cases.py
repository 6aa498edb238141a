"""The settings of a recipe, and the code that runs next to the answer."""

import torch

STEPS = 3

TRIES = 3  # a busy machine may slow one run more than the other: the best try counts

CASE = "your recipe"

A_DICT = 'return a dict of settings, such as {"dp": 8, "micro_batch": 2}'

PRODUCT = "each of the 8 ranks has one place on the mesh: dp × tp × pp × cp is 8"


def is_size(value) -> bool:
    return is_whole(value) and value >= 1


def is_whole(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_yes_or_no(value) -> bool:
    return isinstance(value, int) and value in (True, False)


SIZE = is_size, "sizes are whole numbers from 1 on"

KNOWN = {
    **dict.fromkeys(("dp", "tp", "pp", "cp"), SIZE),
    "zero": (lambda value: is_whole(value) and 0 <= value <= 3, "zero is 0, 1, 2 or 3"),
    "micro_batch": SIZE,
    "recompute": (lambda value: value in ("none", "full"), 'recompute is "none" or "full"'),
    "half": (is_yes_or_no, "half is True or False, without quotes"),
}


def race(capstone, *args):
    torch.manual_seed(0)
    return capstone.race(*args)

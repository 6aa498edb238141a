"""The right results, and the results of known mistakes."""

import math

import torch

from coursekit.kit.results import NO_RETURN
from pedagogy_lib.basics.closeness import close, close_in_float32

from .cases import NUMBERS


def numbers_of(trial) -> tuple[float, ...]:
    return NUMBERS[: trial.n]


def mean_of_all(trial, place) -> float:
    return math.fsum(numbers_of(trial)) / trial.n


def mistakes(trial, place):
    numbers = numbers_of(trial)
    own, total, n = numbers[place], math.fsum(numbers), trial.n
    return {
        "this is the rank's own number. `dist.all_reduce` takes a tensor and writes the sum into "
        "that tensor; the number from which it was made stays as it was": own,
        "each rank has divided its own number: no numbers of others have come, or nobody has "
        "waited for them": own / n,
        "this is the sum. A mean is divided by how many ranks there are": total,
        "this was divided by n twice": total / n**2,
        "a world need not have 4 ranks: dist.get_world_size() tells how many there are": total / 4,
        "this is divided by n + 1: dist.get_world_size() is how many ranks there are, rank 0 "
        "included": total / (n + 1),
        "this is divided by n - 1, the highest rank. Ranks count from 0, so there is one more":
            total / max(n - 1, 1),
        "this is divided by the rank's own number, dist.get_rank(). How many ranks there are is "
        "dist.get_world_size()": total / place if place else math.inf,
        "this is divided by dist.get_rank() + 1, another number on each rank. How many ranks there "
        "are is dist.get_world_size()": total / (place + 1),
        "`//` rounds down to a whole number; `/` does not": total // n,
        "this is the largest number, not the mean": max(numbers),
        "this is the smallest number, not the mean": min(numbers),
        "this is the number in the middle, the median, not the mean": sorted(numbers)[n // 2],
        "a world need not have 2 ranks: dist.get_world_size() tells how many there are": total / 2,
        "this is the product, not the mean": math.prod(numbers),
        "the digits after the point are lost: the tensor holds whole numbers":
            sum(map(int, numbers)) / n,
        "the numbers were rounded before they were added": sum(map(round, numbers)) / n,
        "everybody has the number of rank 0, as after a broadcast. That adds nothing": numbers[0],
        "this is the mean of the ranks' numbers 0, 1, …, n - 1. Add up what each rank was given":
            (n - 1) / 2,
    }  # fmt: skip


def right_on_some(trial) -> str:
    right = [k for k in range(trial.n) if close(trial[k].got, mean_of_all(trial, k))]
    if right == [0]:
        return "rank 0 alone has the mean. dist.reduce gives the sum to one rank; all need it"
    if all(close_in_float32(trial[k].got, mean_of_all(trial, k)) for k in range(trial.n)):
        return (
            "right to seven digits: a tensor that is made of a Python float is of float32, unless "
            "you say dtype=torch.float64"
        )
    if all(is_rounded(trial[k].got, mean_of_all(trial, k)) for k in range(trial.n)):
        return "it seems to be rounded: return the number itself"
    return ""


def is_rounded(got, wanted) -> bool:
    return any(got == round(wanted, digits) for digits in range(7))


def describe_mean(trial, place) -> str:
    return f"{trial.name_of_rank(place)}: the mean is {trial[place].got:.10g}, expected " + (
        f"{mean_of_all(trial, place):.10g}"
    )


def describe_kind(value) -> str:
    if isinstance(value, torch.Tensor):
        return f"it returns a tensor of {value.numel()} elements"
    return f"it returns {value!r:.60}"


def why_no_number(trial, place) -> str:
    value = trial[place].got
    if value is None:
        return (
            f"{NO_RETURN}. dist.all_reduce also returns None: the sum is in the tensor that it got"
        )
    return "asked is one number, a Python float: x.item() takes it out of a tensor"

"""The right results, and the results of known mistakes."""

from collections import Counter

import torch

from coursekit.kit import first_true
from coursekit.kit.rank_trials import IN_A_GROUP
from pedagogy_lib.basics.closeness import relative_gap
from pedagogy_lib.basics.errors import HangError

from . import gradients_reasons as why
from .cases import HUGE, MIXED, gradients

ROUNDED = 0.02  # relative error that bfloat16 may have

OF_NOTHING = (  # words of errors of answers that add up no gradients
    "division by zero", "index out of range", "NoneType", "UnboundLocalError", "non-empty",
    "'int' object", "got <class 'int'>",
)  # fmt: skip


def sums(numbers_of, kinds) -> list[torch.Tensor]:
    found = [torch.zeros(shape, dtype=dtype) for shape, dtype in kinds]
    for k in numbers_of:
        found = [total + gradient for total, gradient in zip(found, gradients(k, kinds))]
    return found


def divide_all(tensors, number) -> list[torch.Tensor]:
    return [tensor / number for tensor in tensors]


def truth(trial, place):
    m, kinds = trial.case.args
    return divide_all(sums(range(m), kinds), m)


def mistakes(trial, place):
    (m, kinds), n = trial.case.args, trial.n
    shares, total = trial.collect_values("asked"), sums(range(m), kinds)
    mine = len(shares[place]) or 1
    own = sums(shares[place], kinds)
    each = [divide_all(sums(k, kinds), len(k) or 1) for k in shares]
    return {
        why.SUM: total,
        why.BY_RANKS: divide_all(total, n),
        why.OF_AVERAGES: divide_all([sum(of_ranks) for of_ranks in zip(*each)], n),
        why.OWN_COUNT: divide_all(total, n * mine),
        why.TWICE_DIVIDED: divide_all(total, m * n),
        why.ALONE: divide_all(own, m),
        why.OWN_MEAN: divide_all(own, mine),
    }


def otherwise(trial) -> str:
    """Diagnose wrong numbers that no mistake gives."""
    found = [(x, y) for k in range(trial.n) for x, y in zip(trial[k].gradients, truth(trial, k))]
    if any(got.shape != wanted.shape for got, wanted in found):
        return why.SHAPED
    if any(trial.collect_values("shared")):
        return why.SHARED
    if trial.case.args[1] == MIXED and all(relative_gap(*pair) < ROUNDED for pair in found):
        return why.ONE_BUFFER
    return (
        why.SUMMED_AGAIN if max(map(count_reduced_bytes, trial.calls)) > 1.5 * whole(trial) else ""
    )


def count_reduced_bytes(calls) -> int:
    return sum(call.tensor_bytes for call in calls if call.name == "all_reduce")


def whole(trial) -> int:
    """Return the bytes of all gradients."""
    return sum(x.nbytes for x in gradients(0, trial.case.args[1]))


def check_computed_once(trial):
    (m, _), shares = trial.case.args, trial.collect_values("asked")
    times = Counter(k for mine in shares for k in mine)
    in_a_group = trial.worlds_passed and trial.case.is_group
    told = "the ranks have computed " + ", ".join(map(str, shares))
    twice = next((k for k in times if times[k] > 1), None)
    if twice is not None:
        is_anew = any(mine.count(twice) > 1 for mine in shares)
        reason = first_true({
            IN_A_GROUP: in_a_group,
            why.ANEW: is_anew,
            why.ZEROS: m < trial.n and times.total() <= trial.n,
        })  # fmt: skip
        yield f"{told}: micro-batch {twice} twice", reason or why.TWICE
    missing = next((k for k in range(m) if k not in times), None)
    if missing is not None:
        reason = IN_A_GROUP if in_a_group else why.MISSING
        yield f"{told}: nobody has computed micro-batch {missing}", reason


def why_much(trial, times) -> str:
    if any("gather" in call.name for call in trial.calls[0]):
        return why.GATHERED
    return why.TOO_OFTEN if count_reduced_bytes(trial.calls[0]) > 1.5 * whole(trial) else why.BY_ONE


def explain(case, error) -> str:
    m, n, text = case.args[0], len(case.ranks), str(error)
    hangs = isinstance(error, HangError)
    return first_true({
        why.NONE_LEFT: hangs and m < n,
        why.IN_LOOP: hangs and m % n > 0 and "all_reduce" in text,
        why.ZEROS: m < n and any(words in text for words in OF_NOTHING),
    })  # fmt: skip


def expect_bytes(trial, place):
    return 2 * (1 - 1 / trial.n) * whole(trial) if trial.case.args[1] == HUGE else None

"""Mistakes that no single case shows: what an answer keeps from call to call, or never does."""

import inspect

import torch

from ..protocol import Wrong
from ..trying import there
from .diagnoses import said_by
from .facts import Equals
from .formula import ALWAYS_THE_SAME, PILED_UP
from .values import is_number

YIELDS = (
    "a function with `yield` in it gives a generator: nothing of it runs before somebody goes "
    "through that. Give the result back with `return`"
)


def mistake_between(facts, trials, failed, why) -> str:
    """What explains all that was found in the cases, or "".

    That results pile up fits case by case, and is told first. That they are the same in all cases
    says less than a mistake that fits in one: then `why` stays.

    Only of the fact that `failed` is told of: another one may be the same in all cases because of
    that very mistake.
    """
    told = next((fact for fact in facts if is_wrong(fact, failed)), None)
    if not isinstance(told, Equals):
        return ""
    kept = said_by(kept_in, told, trials)
    known = (said_by(told.mistakes, failed, k, otherwise={}) for k in range(failed.n))
    return "" if kept == ALWAYS_THE_SAME and any(why in each for each in known) else kept


def is_wrong(fact, trial) -> bool:
    try:
        fact(trial)
    except Wrong:
        return True
    return False


def is_generator(answer) -> bool:
    return there(is_generator_here, answer)


def is_generator_here(answer) -> bool:
    lab = getattr(answer, "lab", None)
    function = answer if lab is None else getattr(lab, answer.__name__, None)
    return inspect.isgeneratorfunction(function)


def kept_in(fact, trials) -> str:
    """Of three cases and more: the first was right, and others have it, too, or go on with it."""
    found = [(trial, trial.of(fact.name)) for trial in trials]
    found = [(trial, values[0]) for trial, values in found if values]
    if len(found) < 3:
        return ""
    wanted = [fact.truth(trial, 0) for trial, _ in found]
    got = [value for _, value in found]
    others = [value for value in wanted if not fact.same(value, wanted[0])]
    if len(others) < 2 or not fact.same(got[0], wanted[0]) or all(map(fact.same, got, wanted)):
        return ""
    if all(fact.same(value, got[0]) for value in got):
        return ALWAYS_THE_SAME
    sums = [wanted[0], *map(sum_of, got, wanted[1:])]
    return PILED_UP if all(map(fact.same, got, sums)) else ""


def sum_of(before, wanted):
    """What goes on from `before`; None where nothing can."""
    if isinstance(before, dict) and isinstance(wanted, dict) and before.keys() == wanted.keys():
        return {key: sum_of(before[key], wanted[key]) for key in wanted}
    if isinstance(before, torch.Tensor) and isinstance(wanted, torch.Tensor):
        return before + wanted if before.shape == wanted.shape else None
    are_lists = isinstance(before, list) and isinstance(wanted, list)
    return before + wanted if are_lists or (is_number(before) and is_number(wanted)) else None

"""The right results, and the results of known mistakes."""

from .cases import a_copy, convert_to_lists, meanwhile, one_by_one, state_of

NUMBERS = {a_copy: (1.0,), meanwhile: (1.0,), one_by_one: (1.0, 2.0, 3.0)}


def states_wanted(trial, place) -> list:
    return [convert_to_lists(state_of(number)) for number in NUMBERS[trial.case.work]]


def list_found(case):
    """Return the names of the results that a case has."""
    return ("told",) + ("saved",) * (case.work in NUMBERS) + ("waited",) * (case.work is meanwhile)

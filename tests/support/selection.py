"""What `make test` leaves to the deep stages: it is marked as deep. The same tests every day.

Of the answers to an exercise on ranks, those of trials.LIVE are tried, the first right one and the
first wrong one; tried.json lists the others. Formulas need no ranks, so more of their answers are
tried: see FORMULAS.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache

import pytest
import trials

from coursekit.kit import Formula

MOST = 1  # right ones, and as many wrong ones, of an exercise on ranks; cases of a detail
CASES = 2  # of each other test in a file of a chapter that starts ranks
FORMULAS = 2  # right ones, and as many wrong ones, of an exercise that needs no ranks


def parametrize(names: str, cases: Iterable, quick: int, **more):
    """Parametrize a test as pytest does, with all cases after the first `quick` ones deep."""
    several, cases = "," in names, list(cases)
    later = [pytest.param(*(case if several else [case]), marks=pytest.mark.deep)
             for case in cases[quick:]]  # fmt: skip
    return pytest.mark.parametrize(names, [*cases[:quick], *later], **more)


def mark_deep(items):
    seen = Counter()
    for item in items:
        if is_deep_answer(item, seen) or is_late_case(item, seen):
            item.add_marker(pytest.mark.deep)


def is_deep_answer(item, seen) -> bool:
    """Return whether an item tries an answer, or the mistakes, that `make test` leaves out."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    answer = parameters.get("answer")
    exercise = getattr(answer, "exercise", parameters.get("exercise"))
    is_formula = isinstance(exercise, Formula)
    if exercise is None or (is_formula and answer is None):
        return False
    if answer is None or not (is_formula or exercise.number in trials.LIVE):
        return exercise.number not in trials.LIVE
    seen[exercise.number, answer.kind] += 1
    return seen[exercise.number, answer.kind] > (FORMULAS if is_formula else MOST)


def is_late_case(item, seen) -> bool:
    """Return whether this is a later case of a test on ranks in a chapter's folder."""
    if not (item.path.parent.name.startswith("ch") and hasattr(item, "callspec")):
        return False
    if not starts_ranks(item.path):
        return False
    place = item.path, item.originalname
    seen[place] += 1
    return seen[place] > (MOST if item.path.name.startswith("test_check_details_") else CASES)


@cache
def starts_ranks(path) -> bool:
    return "launch(" in path.read_text("utf-8") or path.name.startswith("test_check_details_")

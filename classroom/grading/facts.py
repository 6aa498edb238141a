"""Partial credit: the share of a check's cases that holds for a wrong answer.

A check ends at the first wrong case, while this module continues after it. Cases that an answer
gets right which always returns the same, or does nothing, count for nothing.
"""

import math
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

from coursekit.answers.remote_answer import AnswerProcessFailed
from coursekit.kit import Formula
from coursekit.kit.collective_exercise import Collective
from coursekit.kit.formula import is_raised, keeps_integers, value_of
from coursekit.kit.rank_exercise import RankExercise
from coursekit.kit.results import plain
from coursekit.protocol import Wrong

MOST_SECONDS = 20.0  # to continue with one answer
MOST_TRIES = 12
HANGS = "it hangs"  # what checks say of an answer that waits forever


def facts_of(exercise, answer, wrong=None, lines=()) -> tuple[int, int]:
    """Return (right cases, all cases), or (the check's lines, 0) if the check has no cases.

    wrong, lines  what the check has found already, if it has run
    """
    if getattr(type(exercise), "examine", None) is Formula.examine:
        return values_that_are_right(exercise, answer)
    if isinstance(exercise, Formula):  # whose answer gets other arguments than the truth
        return one_by_one(exercise, answer)
    if isinstance(exercise, (RankExercise, Collective)):
        everything = [*exercise.cases, *getattr(exercise, "large", [])]
        return cases_that_are_right(exercise, answer, wrong, lines), len(everything)
    return (len(lines) if wrong else len(lines_of(exercise, answer)[0])), 0


def count_free_facts(exercise) -> int:
    """Count the facts that an answer gets right which always returns the same, or does nothing."""
    if getattr(type(exercise), "examine", None) is Formula.examine:
        truths = [plain(exercise.truth(*call)) for call in calls_of(exercise)]
        return max(sum(map(partial(is_same, exercise, one), truths)) for one in truths)
    answers = [does_nothing, gives_back]
    if isinstance(exercise, Formula):
        answers += constants_of(exercise)
    return max(facts_of(exercise, answer)[0] for answer in answers)


def does_nothing(*args, **kwargs):
    return None


def gives_back(*args, **kwargs):
    return args[0] if args else None


def score_of(right: int, of: int, free: int) -> tuple[float, list[int]]:
    """Return tenths, rounded down and below 1, and [right, of] without what counts for nothing."""
    counted = [max(0, right - free), max(1, of - free)]
    tenths = math.floor(10 * counted[0] / counted[1] + 1e-9)
    return min(9, tenths) / 10, counted


# ---- Formulas ----


def calls_of(exercise) -> list[tuple]:
    return [call for calls in exercise.cases.values() for call in calls]


def values_that_are_right(exercise, answer) -> tuple[int, int]:
    calls, until = calls_of(exercise), time.monotonic() + MOST_SECONDS
    right = sum(is_right(exercise, answer, call) for call in calls if time.monotonic() < until)
    if exercise.also is None:
        return right, len(calls)
    return right + (right > 0 and holds(exercise.also, answer)), len(calls) + 1


def is_right(exercise, answer, call) -> bool:
    with suppress(
        Exception, AnswerProcessFailed
    ):  # Wrong, or a value that nothing can be compared with
        got, wanted = value_of(answer, call), plain(exercise.truth(*call))
        if not is_raised(got) and exercise.same(got, wanted):
            return not exercise.whole or keeps_integers(got, wanted)
    return False


def is_same(exercise, got, wanted) -> bool:
    with suppress(Exception):  # the values have different kinds
        return bool(exercise.same(got, wanted))
    return False


def holds(examine, answer) -> bool:
    with suppress(Exception, AnswerProcessFailed):
        list(examine(answer))
        return True
    return False


def one_by_one(exercise, answer) -> tuple[int, int]:
    """Count the right cases, each with its own check."""
    right, until = 0, time.monotonic() + MOST_SECONDS
    for case, calls in exercise.cases.items():
        if time.monotonic() < until:
            right += bool(lines_of(replace(exercise, cases={case: calls}), answer)[0])
    return right, len(exercise.cases)


def constants_of(exercise) -> list:
    """Return answers that always give the value that is right for one of the calls."""
    answers = []
    for call in exercise.calls_tried():
        with suppress(Exception):  # a truth of other arguments than an answer's
            answers.append(partial(always, exercise.truth(*call)))
    return answers


def always(value, *args, **kwargs):
    return value


# ---- Cases on ranks ----


def cases_that_are_right(exercise, answer, wrong, lines) -> int:
    """Count the right cases; launch the rest again after a case in which the answer fails."""
    rest = [*exercise.cases, *getattr(exercise, "large", [])]
    if wrong is not None and HANGS in wrong.what:
        return place_of(exercise, rest, wrong, lines)
    right, until = 0, time.monotonic() + MOST_SECONDS
    for _ in range(MOST_TRIES):
        seen, what = trials_of(only(exercise, rest), answer)
        right += sum(seen)
        rest = rest[len(seen) + 1 :]
        if not rest or HANGS in what or time.monotonic() > until:
            break
    return right


def trials_of(exercise, answer) -> tuple[list[bool], str]:
    """Return whether each case is right, until the answer fails in one, and how it failed."""
    right = []
    try:
        for trial in exercise.trials(answer):
            right.append(exercise.is_right(trial))
    except Wrong as wrong:
        return right, wrong.what
    except (Exception, AnswerProcessFailed) as error:
        return right, f"{HANGS} or ended: {error}"
    return right, ""


def lines_of(exercise, answer) -> tuple[list[str], Wrong | None]:
    """Return the lines of the check, and what was wrong at its end."""
    lines = []
    try:
        lines.extend(one for one in exercise.examine(answer) if isinstance(one, str))
    except Wrong as wrong:
        return lines, wrong
    except (Exception, AnswerProcessFailed) as error:
        return lines, Wrong("", f"{HANGS} or ended: {error}")
    return lines, None


def only(exercise, cases):
    """Return the same check on some of its cases, without a search for why one is wrong."""
    if not isinstance(exercise, Collective):
        return replace(exercise, cases=cases)
    large = set(map(id, exercise.large))
    small = [case for case in cases if id(case) not in large]
    large = [case for case in cases if id(case) in large]
    return replace(exercise, cases=small, large=large, diagnoses=[])


def place_of(exercise, cases, wrong, lines) -> int:
    """Return how many of these cases were right before the wrong one."""
    if isinstance(exercise, Collective):
        return min(len(lines), len(cases))
    names = [str(case) for case in cases]
    if wrong.case in names:
        return names.index(wrong.case)
    return len(cases) if len(lines) >= len(cases) else 0

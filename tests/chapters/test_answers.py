"""Every check accepts right answers of any style, and tells wrong ones what is wrong."""

import ast
import os
import time
from functools import cache

import pytest
import trials
from answer_files import (
    Answer,
    all_answers,
    define_answer,
    exercises_of_kind,
    label_exercise,
    task_of,
)
from each import repeat_for_each

from coursekit.answers import remote_answer
from coursekit.building import build
from coursekit.building.record_inputs import modules_behind
from coursekit.chapters import exercise_folders
from coursekit.kit import Formula
from pedagogy_lib import check

ANSWERS = all_answers()
EXERCISES = exercises_of_kind()


@pytest.fixture
def quick_hangs(monkeypatch):
    """Right answers have all the time that a learner's has: this machine may be busy."""
    monkeypatch.setattr(remote_answer, "TIMEOUT_SECONDS", 3.0)


@pytest.fixture
def answer_checker(solution_labs):
    """Check an answer in its cell; or in the learner's file, where all else is solved."""

    def check_answer(answer):
        if answer.exercise.lab is None:
            return check(answer.exercise.number, define_answer(answer))
        path = solution_labs / "labs" / f"{answer.exercise.lab}.py"
        path.write_text(f"{path.read_text()}\n\n{answer.given}{answer.program}")
        before = time.time() - 1
        os.utime(path, (before, before))  # a file just written would be read 50 ms later
        return check(answer.exercise.number)

    return check_answer


def cases(kind):
    return [
        pytest.param(answer, id=str(answer), marks=[pytest.mark.deep] * answer.is_deep)
        for answer in ANSWERS
        if answer.kind == kind
    ]


@pytest.mark.parametrize("answer", cases("right"))
def test_right_answers_pass(answer, answer_checker):
    verdict = answer_checker(answer)
    assert verdict.passed is True, verdict


@pytest.mark.usefixtures("quick_hangs")
@pytest.mark.parametrize("answer", cases("wrong"))
def test_wrong_answers_are_told_what_is_wrong(answer, answer_checker):
    verdict = answer_checker(answer)
    assert verdict.passed is False
    said = " ".join(f"{verdict.wrong.case}: {verdict.wrong.what} {verdict.wrong.why}".split())
    if answer.words not in said:
        pytest.fail(f"wanted {answer.words!r} in:\n{verdict}")  # whole: an assert would cut it


@pytest.mark.usefixtures("quick_hangs")
@pytest.mark.parametrize("exercise", EXERCISES, ids=label_exercise)
def test_the_hole_is_told_politely_and_the_bug_is_found(exercise, answer_checker, solution_labs):
    given = next((answer.given for answer in ANSWERS if answer.exercise is exercise), "")
    task = task_of(exercise)
    if build.HOLE.format(indent="").strip() not in task:
        assert (
            answer_checker(Answer(exercise, "wrong", "as it is", task, given=given)).passed is False
        )
        return
    if exercise.lab is None:
        verdict = check(
            exercise.number, define_answer(Answer(exercise, "wrong", "a hole", task, given=given))
        )
    else:
        solution = build.text_of(build.source_of(exercise.lab))
        path = solution_labs / "labs" / f"{exercise.lab}.py"
        path.write_text(build.insert_holes(solution))
        (solution_labs / "solutions" / "labs" / f"{exercise.lab}.py").write_text(solution)
        verdict = check(exercise.number)
    assert verdict.passed is None
    assert "not attempted yet; write " in repr(verdict)


def test_all_answers_were_tried_since_anything_behind_them_changed():
    assert trials.find_stale_exercises() == [], "run `make answers`"


def test_what_is_tried_live_uses_all_that_the_kit_has():
    used = {exercise.number: kit_names_of(exercise) for exercise in trials.exercises_on_ranks()}
    assert set().union(*used.values()) == set().union(*map(used.get, trials.LIVE))


def kit_names_of(exercise) -> set[str]:
    """Return what the modules of a check import from the kit, and the kind of the exercise."""
    modules = modules_behind(trials.check_file(exercise))
    return {type(exercise).__name__}.union(*map(kit_names_in, modules))


@cache
def kit_names_in(module) -> set[str]:
    nodes = [n for n in ast.walk(ast.parse(module.read_text())) if isinstance(n, ast.ImportFrom)]
    kit = [node for node in nodes if (node.module or "").startswith("coursekit.kit")]
    return {f"{node.module}.{alias.name}" for node in kit for alias in node.names}


@repeat_for_each("exercise", EXERCISES, label_exercise)
def test_there_are_answers_of_both_kinds(exercise):
    kinds = [answer.kind for answer in ANSWERS if answer.exercise is exercise]
    mistakes = exercise.mistakes if isinstance(exercise, Formula) else []
    need_answers(exercise, "right", 2 - kinds.count("right"))
    need_answers(exercise, "wrong", 5 - kinds.count("wrong") - len(mistakes))


def need_answers(exercise, kind, missing):
    """Fail, and name the file to write to, if answers of a kind are missing."""
    if missing > 0:
        file = (exercise_folders()[exercise.number] / "answers.py").relative_to(build.ROOT)
        pytest.fail(f"write {missing} more {kind} answer{'s' * (missing > 1)} in {file}")

"""Answers that live in another process get the verdicts that they get in this one."""

import pytest
from answer_files import all_answers, defined, imports_of
from elsewhere import connected, put_course
from helpers import put_lab

from pedagogy_lib import check
from pedagogy_lib.course import build, checking

ANSWERS = all_answers()
FIRST = {}
for each in ANSWERS:
    FIRST.setdefault((each.exercise.number, each.kind), each)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return put_course(tmp_path_factory.mktemp("course"))


@pytest.fixture
def solved_labs(tmp_path, monkeypatch):
    for source in build.lab_sources():
        put_lab(tmp_path, monkeypatch, source.stem, *[build.solved(source.read_text())] * 2)
    return tmp_path


def cases():
    quick = {next(iter(FIRST)), ("2.8", "right"), ("2.9", "wrong"), ("6.4", "right")}
    for key, answer in FIRST.items():
        deep = [pytest.mark.deep] * (key not in quick)
        yield pytest.param(answer, id=f"{key[0]} {key[1]}", marks=deep)


@pytest.mark.parametrize("answer", list(cases()))
def test_the_verdict_is_the_same(answer, course, solved_labs):
    exercise = answer.exercise
    with connected(course) as connection:
        if exercise.lab is None:
            source = f"{imports_of(exercise)}\n{answer.given}\n{answer.program}"
            submitted = connection.begin(exercise.name, source=source)
        else:
            path = course / "labs" / f"{exercise.lab}.py"
            before = path.read_text()
            path.write_text(f"{before}\n\n{answer.given}{answer.program}")
            submitted = connection.begin(exercise.name, lab=exercise.lab)
        try:
            there = checking.examine(exercise, submitted, "title")
        finally:
            if exercise.lab is not None:
                path.write_text(before)
    here = checked_here(answer, solved_labs)
    assert there.passed == here.passed == (answer.kind == "right"), there
    assert len(there.lines) == len(here.lines)
    if here.wrong is not None:
        assert there.wrong.case == here.wrong.case
        assert there.wrong.why == here.wrong.why


def checked_here(answer, folder):
    if answer.exercise.lab is None:
        return check(answer.exercise.number, defined(answer))
    path = folder / "labs" / f"{answer.exercise.lab}.py"
    path.write_text(f"{path.read_text()}\n\n{answer.given}{answer.program}")
    return check(answer.exercise.number)

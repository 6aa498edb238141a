"""Answers that live in another process get the verdicts that they get in this one."""

import contextlib

import pytest
from answer_files import all_answers, define_answer, imports_of
from elsewhere import connect_to_course, put_course
from exercise_names import EX
from helpers import put_lab

from coursekit import check_runner
from coursekit.building import build
from pedagogy_lib import check

ANSWERS = all_answers()
FIRST = {}
for each in ANSWERS:
    FIRST.setdefault((each.exercise.number, each.kind), each)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return put_course(tmp_path_factory.mktemp("course"))


class FreshConnection:
    """A connection, and another one where that is lost."""

    def __init__(self, course):
        self.course, self.stack, self.connection = course, contextlib.ExitStack(), None

    def get(self):
        if self.connection is None or self.connection.is_lost:
            self.stack.close()
            self.connection = self.stack.enter_context(connect_to_course(self.course))
        return self.connection


@pytest.fixture(scope="module")
def fresh_connection(course):
    found = FreshConnection(course)
    with contextlib.closing(found.stack):
        yield found


@pytest.fixture
def solution_labs(tmp_path, monkeypatch):
    for source in build.lab_sources():
        put_lab(
            tmp_path, monkeypatch, source.stem, *[build.keep_answers(build.text_of(source))] * 2
        )
    return tmp_path


def cases():
    quick = {(EX.all_reduce_ring, "right"), (EX.sent_bytes, "wrong")}
    for key, answer in FIRST.items():
        deep = [pytest.mark.deep] * (key not in quick)
        yield pytest.param(answer, id=f"{key[0]} {key[1]}", marks=deep)


@pytest.mark.parametrize("answer", list(cases()))
def test_the_verdict_is_the_same(answer, course, fresh_connection, solution_labs):
    with put(answer, course):
        there = check_remotely(answer, fresh_connection.get())
    assert there.passed == (answer.kind == "right"), there
    here = check_locally(answer, solution_labs)
    assert len(there.lines) == len(here.lines)
    if here.wrong is not None:
        assert there.wrong.case == here.wrong.case
        assert there.wrong.why == here.wrong.why


@contextlib.contextmanager
def put(answer, course):
    """Meanwhile an answer to an exercise in a lab stands in that lab."""
    path = course / "labs" / f"{answer.exercise.lab}.py"
    before = path.read_text() if answer.exercise.lab else ""
    if before:
        path.write_text(f"{before}\n\n{answer.given}{answer.program}")
    try:
        yield
    finally:
        if before:
            path.write_text(before)


def check_remotely(answer, connection):
    exercise, source = answer.exercise, None
    if exercise.lab is None:
        source = f"{imports_of(exercise)}\n{answer.given}\n{answer.program}"
    submitted = connection.begin(exercise.name, source=source, lab=exercise.lab)
    return check_runner.run_check(exercise, submitted, "title")


def check_locally(answer, folder):
    if answer.exercise.lab is None:
        return check(answer.exercise.number, define_answer(answer))
    path = folder / "labs" / f"{answer.exercise.lab}.py"
    path.write_text(f"{path.read_text()}\n\n{answer.given}{answer.program}")
    return check(answer.exercise.number)

"""nbgrader's end of the line to the course: what is held, and when it asks once more."""

import logging
import os

import pytest
from exercise_names import EX

from classroom.lms import judge_server, nbgrader_asking
from pedagogy_lib.basics.errors import WrongInput

LOG = logging.getLogger("asking")
COURSE = """\
import json, os, sys

for number, line in enumerate(sys.stdin):
    question = json.loads(line)
    if question.get("student") == "mal":
        sys.exit(1)
    wrong = {"error": "no walls"} if question.get("wishes") == "wrong" else {}
    print(json.dumps({"at": [os.getpid(), number], "problems": [], "answers": {}} | wrong),
          flush=True)
"""


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Asks a course that says which process has answered, and how many it had answered before."""
    monkeypatch.setattr(nbgrader_asking, "_held", {})
    program = tmp_path / "course" / "classroom" / "lms" / "__main__.py"
    program.parent.mkdir(parents=True)
    program.write_text(COURSE)
    for folder in (program.parent, program.parents[1]):
        (folder / "__init__.py").touch()  # so that it is found before the course that is tested

    def ask_for_student(student):
        question = {"submission": str(tmp_path / "submitted"), "student": student}
        course = tmp_path / "course"
        return nbgrader_asking.ask_course("python", course, LOG, question)["at"]

    ask_for_student.program = program
    ask_for_student.begin = lambda wishes: nbgrader_asking.begin(
        "python", tmp_path / "course", wishes
    )
    yield ask_for_student
    nbgrader_asking._held["process"].kill()


def test_a_verdict_is_held_until_the_next_autograde(ask):
    process, number = ask("ada")
    assert number == 0 and ask("ada") == [process, 0]
    ask.begin({})
    assert ask("ada") == [process, 2]


def test_a_course_that_was_mended_is_read_anew(ask):
    process, _ = ask("ada")
    later = ask.program.stat().st_mtime + 10
    os.utime(ask.program, (later, later))
    other, number = ask("bob")
    assert other != process and number == 0


def test_a_process_that_has_ended_is_asked_once_more(ask):
    ask("ada")
    with pytest.raises(RuntimeError, match="has ended in"):
        ask("mal")  # twice
    assert ask("bob")[1] == 0


def test_what_the_course_refuses_is_told(ask):
    with pytest.raises(RuntimeError, match="the course could not judge: no walls"):
        ask.begin("wrong")


def test_wishes_are_tried_before_any_submission():
    with pytest.raises(WrongInput, match="there is no chapter or part 77"):
        judge_server.can_judge("trust", "77")
    found = judge_server.reply_to({"wishes": {"way": "door", "given": ""}})
    assert "there is no way 'door'" in found["error"]
    assert judge_server.reply_to({"wishes": {"way": "trust", "given": "02"}}) == {"way": "trust"}


def test_only_exercises_that_there_are_can_be_asked():
    assert [judge_server.is_asked(number) for number in (EX.all_reduce_ring, "2.99", "99.9")] == [
        True,
        False,
        False,
    ]

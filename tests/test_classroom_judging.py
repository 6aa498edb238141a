"""Answers that end, or never do, in a process of their own: each costs its exercise alone."""

from functools import partial

import pytest
from answer_files import solution_of
from class_of_students import files_with

from classroom.grading import course, workers, writing
from classroom.grading.collect import Submission
from classroom.sandbox import opened
from pedagogy_lib.course.checking import find_exercise

HEAD = "def tree_seconds(n, megabytes, speed):\n"
ENDS = {
    "loops": "    while n:\n        n += 1\n",
    "ends its process": "    import os\n    os._exit(0)\n",
    "ends it in the third call": (
        "    seen.append(n)\n    if len(seen) > 2:\n        torch.os._exit(0)\n"
        "    return (n - 1).bit_length() * megabytes / speed\nseen = []\n"
    ),
    "exits": "    raise SystemExit(3)\n",
}


def graded(answer, tmp_path) -> dict:
    given = {"2.2": answer, "2.14": solution_of(find_exercise("2.14"))}
    asked = tuple(course.asked(exercises=list(given)))
    task = workers.Task(asked, tmp_path / "out", partial(opened, way="trust"))
    return workers.graded(Submission("ada", "x", files_with("02", given)), task)["answers"]


@pytest.mark.parametrize("how", ENDS)
def test_an_answer_that_ends_is_wrong_and_the_next_one_is_judged(how, tmp_path):
    answers = graded(HEAD + ENDS[how], tmp_path)
    assert answers["2.14"]["state"] == "right"
    assert answers["2.2"]["state"] == "wrong"
    assert answers["2.2"]["score"] < 1


def test_code_that_nests_without_end_is_not_read(tmp_path):
    answers = graded(HEAD + "    return " + "1 + " * 1500 + "1\n", tmp_path)
    assert answers["2.2"]["state"] != "broken"
    assert answers["2.14"]["state"] in (
        "right",
        "missing",
    )


def test_a_process_that_does_not_begin_is_not_the_students_fault(tmp_path, monkeypatch):
    monkeypatch.setattr("classroom.sandbox.connection.Connection.await_ready", never)
    assert {one["state"] for one in graded(HEAD + "    return 1\n", tmp_path).values()} == {
        "broken"
    }


def never(self):
    self.lose("it has not begun")


def test_no_code_of_a_student_reaches_the_terminal_as_it_is():
    answers = {"2.2": {"state": "look", "reasons": ["\x1b[2K\x1b[1Afork"]}}
    (line,) = writing.to_look_at({"student": "ada", "answers": answers})
    assert "\x1b" not in line and "fork" in line

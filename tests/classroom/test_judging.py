"""Answers that end, or never do, in a process of their own: each costs its exercise alone."""

from functools import partial

import needs
import pytest
from answer_files import solution_of
from class_of_students import files_with
from exercise_names import EX
from selection import parametrize
from walls_here import USABLE

from classroom.grading import course, result_files, workers
from classroom.grading.collect import Submission
from classroom.sandbox import Limits, open_sandbox
from coursekit.check_runner import find_exercise

HEAD = "def tree_seconds(n, megabytes, speed):\n"
ENDS = {
    "ends its process": "    import os\n    os._exit(0)\n",
    "loops": "    while n:\n        n += 1\n",
    "ends it in the third call": (
        "    seen.append(n)\n    if len(seen) > 2:\n        torch.os._exit(0)\n"
        "    return (n - 1).bit_length() * megabytes / speed\nseen = []\n"
    ),
    "exits": "    raise SystemExit(3)\n",
}


def grade_answer(answer, tmp_path, way="trust", limits=None) -> dict:
    given = {EX.tree_seconds: answer, EX.card_bytes: solution_of(find_exercise(EX.card_bytes))}
    asked = tuple(course.list_exercises(exercises=list(given)))
    task = workers.Task(asked, tmp_path / "out", partial(open_sandbox, way=way, limits=limits))
    return workers.grade_submission(Submission("ada", "x", files_with("02", given)), task)[
        "answers"
    ]


@parametrize("how", [*ENDS], quick=1)
def test_an_answer_that_ends_is_wrong_and_the_next_one_is_judged(how, tmp_path):
    answers = grade_answer(HEAD + ENDS[how], tmp_path, limits=Limits(seconds=2.0))
    assert answers[EX.card_bytes]["state"] == "right"
    assert answers[EX.tree_seconds]["state"] == "wrong"
    assert answers[EX.tree_seconds]["score"] < 1


@pytest.mark.deep
def test_code_that_nests_without_end_is_not_read(tmp_path):
    answers = grade_answer(HEAD + "    return " + "1 + " * 1500 + "1\n", tmp_path)
    assert answers[EX.tree_seconds]["state"] != "broken"
    assert answers[EX.card_bytes]["state"] in (
        "right",
        "missing",
    )


def test_a_process_that_does_not_begin_is_not_the_students_fault(tmp_path, monkeypatch):
    monkeypatch.setattr("classroom.sandbox.connection.Connection.await_ready", never)
    assert {one["state"] for one in grade_answer(HEAD + "    return 1\n", tmp_path).values()} == {
        "broken"
    }


def never(self):
    self.lose("it has not begun")


def test_no_code_of_a_student_reaches_the_terminal_as_it_is():
    answers = {EX.tree_seconds: {"state": "look", "reasons": ["\x1b[2K\x1b[1Afork"]}}
    student = {"student": "ada\x1b", "problems": ["\x07.ipynb"], "answers": answers}
    told = result_files.summary({"title": "x", "exercises": [], "students": [student]})
    assert told.replace("\n", "").isprintable() and "fork" in told


SLOW = "    import time\n    time.sleep(0.4)\n    return (n - 1).bit_length() * megabytes / speed\n"


@pytest.mark.deep
def test_all_calls_of_an_answer_have_one_limit(tmp_path):
    answers = grade_answer(HEAD + SLOW, tmp_path, limits=Limits(seconds=30.0, seconds_in_all=1.5))
    assert answers[EX.tree_seconds]["state"] == "wrong"
    assert "any more after 1.5 s in all its calls" in answers[EX.tree_seconds]["what"]
    assert answers[EX.card_bytes]["state"] == "right"


LEAVES = """    import os
    os.makedirs(os.path.join(os.path.dirname(__file__), "card_bytes.py"))
    with open("/tmp/full", "wb") as file:
        try:
            while True:
                file.write(bytes(1 << 24))
        except OSError:
            pass
    return (n - 1).bit_length() * megabytes / speed
"""


@pytest.mark.deep
@needs.mark("walls")
def test_what_an_answer_leaves_in_files_does_not_stop_the_next_one(tmp_path):
    limits = Limits(disk_bytes=64 * 2**20)
    answers = grade_answer(HEAD + LEAVES, tmp_path, USABLE[0], limits)
    assert answers[EX.card_bytes]["state"] == "right", answers[EX.card_bytes]


def test_whole_numbers_of_any_length_are_only_wrong(tmp_path):
    answers = grade_answer(HEAD + "    return 10 ** 5000\n", tmp_path)
    assert answers[EX.tree_seconds]["state"] == "wrong"
    assert "got a number of 5000 digits" in answers[EX.tree_seconds]["what"]

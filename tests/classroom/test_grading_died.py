"""A grader's own process that dies in the middle of a submission."""

import os

import pytest
from class_of_students import files_with
from exercise_names import EX
from test_grading_workers import Deadly, read_judged
from trusted_sandbox import SandboxOpener

from classroom.grading import course, workers
from classroom.grading.collect import Submission

ASKED = tuple(course.list_exercises(exercises=[EX.tree_seconds, EX.chunk_to_send, EX.sent_bytes]))
ANSWERS = {
    EX.tree_seconds: "def tree_seconds(n, mb, speed):\n    return mb / speed\n",
    EX.chunk_to_send: "def chunk_to_send(rank, step, n):\n    return 1 * rank\n",  # see Deadly
    EX.sent_bytes: "def sent_bytes(name, n, X):\n    return (n - 1) * X / n\n",
}


class WorkerKiller:
    """A task with it ends each worker at its start."""

    def __reduce__(self):
        return os._exit, (9,)


def grade(folder, sandbox, files):
    task = workers.Task(ASKED, folder / "out", sandbox)
    students = [Submission("ada", "ada.zip", files, ["p"])]
    (entry,) = workers.grade_all(students, task, jobs=1)
    return entry


def states(entry) -> dict:
    return {number: one["state"] for number, one in entry["answers"].items()}


@pytest.mark.deep
def test_only_the_answer_at_which_it_dies_goes_without_a_verdict(tmp_path):
    files = files_with("02", ANSWERS)
    entry = grade(tmp_path, Deadly(tmp_path), files)
    assert states(entry) == {
        EX.tree_seconds: "wrong",
        EX.chunk_to_send: "broken",
        EX.sent_bytes: "wrong",
    }
    assert entry["answers"][EX.chunk_to_send]["what"] == workers.ENDED
    assert "return 1 * rank" in entry["answers"][EX.chunk_to_send]["source"]
    assert entry["answers"][EX.sent_bytes]["score"] == 0.6
    assert entry["problems"] == ["p", workers.ENDED]
    assert len(read_judged(tmp_path)) == 2  # the first was not judged once more
    again = grade(tmp_path, SandboxOpener(tmp_path), files)  # which does not die there
    assert states(again) == {
        EX.tree_seconds: "wrong",
        EX.chunk_to_send: "wrong",
        EX.sent_bytes: "wrong",
    }
    assert len(read_judged(tmp_path)) == 3


@pytest.mark.deep
def test_one_that_dies_before_any_answer_ends_after_a_few_tries(tmp_path):
    entry = grade(tmp_path, WorkerKiller(), files_with("02", ANSWERS))
    assert states(entry) == dict.fromkeys(ANSWERS, "broken")
    assert entry["problems"] == ["p", workers.ENDED]

"""Solutions that stand in for answers which a student has not written, `--given`."""

import pytest
from answer_files import solution_of
from class_of_students import files_with
from exercise_names import EX
from trusted_sandbox import LocalSandbox

from classroom.grading import course, workers
from classroom.grading.collect import Submission
from classroom.grading.judge import Judge, answers_in
from classroom.grading.programs import read_program
from coursekit.check_runner import find_exercise

ASKED = tuple(course.list_exercises(exercises=[EX.reduce_scatter_ring, EX.all_reduce_ring]))
OF_RING = ASKED[1]
RING = "def all_reduce_ring(x, group=None):\n    reduce_scatter_ring([x], group)\n"
UNREADABLE = b"\ndef reduce_scatter_ring(chunks, group=None):\n    return (\n"


def test_a_given_solution_stands_in_for_an_answer_that_is_asked_for_too(tmp_path):
    files = files_with("02", {EX.all_reduce_ring: solution_of(find_exercise(EX.all_reduce_ring))})
    task = workers.Task(
        ASKED, tmp_path, LocalSandbox, frozenset({EX.reduce_scatter_ring, EX.all_gather_ring})
    )
    found = workers.grade_submission(Submission("ada", "ada.zip", files), task)["answers"]
    assert {number: one["state"] for number, one in found.items()} == {
        EX.reduce_scatter_ring: "missing", EX.all_reduce_ring: "right"}  # fmt: skip


def judge_of(given, programs, more=b""):
    files = files_with("02", programs)
    files["labs/collectives.py"] += more
    read = [read_program(name, data) for name, data in files.items()]
    return Judge(answers_in(ASKED, read, frozenset(given)), LocalSandbox, None)


@pytest.mark.parametrize("given, said", [
    ({EX.reduce_scatter_ring}, ""),
    ((), f"{EX.all_reduce_ring} builds on {EX.reduce_scatter_ring}, which is missing"),
])  # fmt: skip
def test_what_is_given_is_not_missing_below(given, said):
    assert judge_of(given, {EX.all_reduce_ring: RING}).report_missing_dependency(OF_RING) == said


def blame_ring(judge) -> dict:
    with judge:
        judge.states[EX.reduce_scatter_ring] = "wrong"
        return judge.blame_dependency(OF_RING, judge.answers.found[EX.all_reduce_ring])


def test_who_has_written_a_wrong_one_is_told_so_although_a_solution_is_given():
    wrong = "def reduce_scatter_ring(chunks, group=None):\n    return chunks[0]\n"
    own = {EX.reduce_scatter_ring: wrong}
    said = (
        f"{EX.all_reduce_ring} builds on {EX.reduce_scatter_ring}, which is wrong: that comes first"
    )
    assert blame_ring(judge_of({EX.reduce_scatter_ring}, own | {EX.all_reduce_ring: RING})) == {
        "reasons": [said]
    }


def test_one_that_cannot_be_read_is_not_blamed_where_the_solution_has_run():
    with_solution = judge_of({EX.reduce_scatter_ring}, {EX.all_reduce_ring: RING}, UNREADABLE)
    assert with_solution.answers.found[EX.reduce_scatter_ring].state == "wrong"
    assert with_solution.report_missing_dependency(OF_RING) == ""
    assert blame_ring(with_solution) == {}
    without = judge_of((), {EX.all_reduce_ring: RING}, UNREADABLE)
    assert (
        without.report_missing_dependency(OF_RING)
        == f"{EX.all_reduce_ring} builds on {EX.reduce_scatter_ring}, which cannot be read"
    )

"""What an interrupted grading leaves: nothing that was there is lost, and the rest is marked."""

import csv
import io
import json
from pathlib import Path

import pytest
from class_of_students import files_with, hand_in
from exercise_names import EX
from trusted_sandbox import LocalSandbox

from classroom.grading import command, course, result_files, workers
from classroom.grading.command import INTERRUPTED, main

ASKED = course.list_exercises(exercises=[EX.tree_seconds, EX.sent_bytes])
HELPED = "def tree_seconds(n, mb, speed):\n    return (n - 1).bit_length() * mb / speed\n"


def entry(state, score=0.0):
    return workers.EMPTY | {"state": state, "score": score, "looks": [], "code": "c"}


def students(**states):
    """ada=("right", "waiting"): her answers to 2.2 and 2.9"""
    return [
        {"student": name, "from": "x", "problems": [], "answers": {
            one.number: entry(state, float(state == "right")) for one, state in zip(ASKED, some)}}
        for name, some in states.items()
    ]  # fmt: skip


@pytest.fixture
def finish(tmp_path):
    """Write such results, of a command that was interrupted or not; how many of them wait."""
    options = command.arguments([str(tmp_path), "--out", str(tmp_path / "out")])
    return lambda **states: command.finish(options, ASKED, students(**states))


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_verdicts_that_are_there_stay_where_a_new_grading_has_not_come_to_them(
    finish, tmp_path, capsys
):
    assert finish(ada=("right", "wrong"), bo=("right", "right")) == 0
    before = read_files(tmp_path)
    assert finish(ada=("wrong", "wrong"), bo=("waiting", "waiting"), cem=("right", "waiting")) == 3
    assert read_files(tmp_path) == before
    said = f"{tmp_path}/out is left as it was: it has verdicts on 2 answers that this"
    assert said in capsys.readouterr().out


def test_an_interrupted_grading_that_loses_nothing_is_written(finish, tmp_path):
    assert finish(ada=("right", "waiting")) == 1
    assert finish(ada=("right", "waiting"), bo=("wrong", "waiting")) == 2
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert result_files.find_waiting_answers(results) == {
        ("ada", EX.sent_bytes),
        ("bo", EX.sent_bytes),
    }
    assert finish(ada=("wrong", "right"), bo=("wrong", "right")) == 0
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert result_files.find_waiting_answers(results) == set()


def test_what_waits_has_no_score_and_is_in_no_sum(finish, tmp_path):
    finish(ada=("right", "waiting"), bo=("missing", "right"))
    rows = list(csv.reader(io.StringIO((tmp_path / "out" / "grades.csv").read_text())))
    assert rows == [["student", EX.tree_seconds, EX.sent_bytes, "total", "of", "to look at"],
                    ["ada", "1.0", "", "1.0", "1.0", "0"],
                    ["bo", "0.0", "1.0", "1.0", "2.0", "0"]]  # fmt: skip


def test_the_rest_is_looked_up_and_nothing_of_it_is_run(tmp_path):
    class UntouchableSandbox(LocalSandbox):
        def __init__(self, files):
            raise AssertionError("nothing is to be run")

    task = workers.Task(tuple(ASKED), tmp_path, LocalSandbox)
    submission = workers.Submission("ada", "x", files_with("02", {EX.tree_seconds: HELPED}))
    first = workers.grade_submission(submission, task)["answers"]
    submission.files = files_with(
        "02", {EX.tree_seconds: HELPED, EX.sent_bytes: "def sent_bytes(a, n, X): 0\n"}
    )
    skipped = dict.fromkeys((EX.tree_seconds, EX.sent_bytes), workers.WAITING)
    unopened = workers.Task(tuple(ASKED), tmp_path, UntouchableSandbox)
    found = workers.grade_submission(submission, unopened, skipped=skipped)["answers"]
    assert found[EX.tree_seconds] == first[EX.tree_seconds]
    assert (first[EX.tree_seconds]["state"], found[EX.sent_bytes]["state"]) == ("right", "waiting")
    assert "sent_bytes" in found[EX.sent_bytes]["source"]
    assert workers.grade_submission(submission, task)["answers"][EX.sent_bytes]["state"] == "wrong"


@pytest.mark.parametrize("step", ["collect", "finish"])
def test_an_interrupt_beside_the_judging_is_one_sentence(step, tmp_path, monkeypatch, capsys):
    def raise_interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "opener", lambda trust, asked: LocalSandbox)
    monkeypatch.setattr(command, "all_of", lambda *_: ([], True))
    monkeypatch.setattr(command, step, raise_interrupt)
    hand_in(tmp_path, "ada", {"a.py": b""}, "folders")
    assert (
        main([str(tmp_path), "--exercises", EX.tree_seconds, "--out", str(tmp_path / "o")])
        == INTERRUPTED
    )
    assert capsys.readouterr().err == "interrupted: the same command goes on from here\n"

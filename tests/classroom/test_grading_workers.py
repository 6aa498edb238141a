"""Several students at a time: killed, interrupted, and started again."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import helpers
import pytest
from class_of_students import files_with, zip_files
from exercise_names import EX
from helpers import alive, environment, family, wait_until
from trusted_sandbox import JUDGED, SandboxOpener

from classroom.grading import command, course, workers
from classroom.grading.collect import Submission
from classroom.grading.command import INTERRUPTED

PROGRAM = """
import sys
from pathlib import Path
sys.path[:0] = {tests!r}
from test_grading_workers import {run}
if __name__ == "__main__":
    {run}(Path({folder!r}))
"""
ANSWER = "def tree_seconds(n, mb, speed):\n    return {turn} * mb / speed\n"
TESTS = [str(Path(__file__).parent), str(Path(helpers.__file__).parent)]
STUDENTS = 6
SECONDS = 120.0  # for what takes a few: the machine may be busy


def submissions():
    return [
        Submission(f"s{turn}", "x", files_with("02", {EX.tree_seconds: ANSWER.format(turn=turn)}))
        for turn in range(STUDENTS)
    ]


def task_in(folder, seconds=1.0):
    asked = tuple(course.list_exercises(exercises=[EX.tree_seconds]))
    return workers.Task(asked, folder / "out", SandboxOpener(folder, seconds))


def grade_in(folder: Path):
    students = list(workers.grade_all(submissions(), task_in(folder), jobs=2))
    (folder / "students.json").write_text(json.dumps(students))


def command_in(folder: Path):
    """`make grade`, with a sandbox that takes a second for an answer."""
    for one in submissions():
        (folder / "class").mkdir(exist_ok=True)
        (folder / "class" / f"{one.student}.zip").write_bytes(zip_files(one.files))
    command.opener = lambda trust, asked: SandboxOpener(folder, 1.0)
    given = [str(folder / "class"), "--exercises", EX.tree_seconds, "--jobs", "2", "--out"]
    raise SystemExit(command.main([*given, str(folder / "out")]))


def read_judged(folder) -> list[str]:
    path = folder / JUDGED
    return path.read_text().split("\n")[:-1] if path.exists() else []


def list_kept_verdicts(folder) -> list[Path]:
    return list((folder / "out" / workers.KNOWN).glob("*.json"))


@pytest.fixture
def begin(tmp_path):
    """Start a grading in a program of its own."""
    started = []

    def begin_one(run="grade_in"):
        script = tmp_path / "program.py"
        script.write_text(PROGRAM.format(tests=TESTS, folder=str(tmp_path), run=run))
        settings = environment(PYTHONHASHSEED="0")
        started.append(subprocess.Popen([sys.executable, str(script)], env=settings))
        return started[-1]

    yield begin_one
    for program in started:
        for pid in [*family(program.pid), program.pid]:
            if alive([pid]):
                os.kill(pid, signal.SIGKILL)
        program.wait()


@pytest.mark.deep
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_who_is_ended_in_the_middle_goes_on_from_there(tmp_path, begin, how):
    program = begin()
    assert wait_until(lambda: len(list_kept_verdicts(tmp_path)) >= 2, SECONDS)
    below = family(program.pid)
    os.kill(program.pid, how)
    program.wait(SECONDS)
    assert wait_until(lambda: not alive(below), SECONDS)
    kept = len(list_kept_verdicts(tmp_path))
    before = read_judged(tmp_path)
    assert kept < STUDENTS  # it was in the middle
    assert begin().wait(4 * SECONDS) == 0
    found = json.loads((tmp_path / "students.json").read_text())
    assert sorted(one["student"] for one in found) == [f"s{turn}" for turn in range(STUDENTS)]
    again = read_judged(tmp_path)[len(before) :]
    assert len(again) == len(set(again)) == STUDENTS - kept


@pytest.mark.deep
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_command_writes_what_is_known_when_it_is_told_to_end(tmp_path, begin, how):
    program = begin("command_in")
    assert wait_until(lambda: len(list_kept_verdicts(tmp_path)) >= 2, SECONDS)
    os.kill(program.pid, how)
    assert program.wait(SECONDS) == INTERRUPTED
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    found = {
        one["student"]: one["answers"][EX.tree_seconds]["state"] for one in results["students"]
    }
    assert list(found) == [f"s{turn}" for turn in range(STUDENTS)]
    assert set(found.values()) == {"wrong", "waiting"}
    assert (
        len(read_judged(tmp_path))
        >= len(list_kept_verdicts(tmp_path))
        == list(found.values()).count("wrong")
    )
    page = (tmp_path / "out" / "index.html").read_text()
    assert f"{list(found.values()).count('waiting')} answers not judged yet" in page
    lines = (tmp_path / "out" / "grades.csv").read_text().splitlines()[1:]
    assert [line.split(",")[1] == "" for line in lines] == [
        state == "waiting" for state in found.values()]  # fmt: skip


@pytest.mark.deep
def test_a_worker_that_dies_costs_its_student_alone(tmp_path):
    asked = tuple(course.list_exercises(exercises=[EX.tree_seconds]))
    task = workers.Task(asked, tmp_path, Deadly(tmp_path))
    found = {one["student"]: one for one in workers.grade_all(submissions()[:3], task, jobs=1)}
    assert [found[f"s{turn}"]["answers"][EX.tree_seconds]["state"] for turn in range(3)] == [
        "wrong", "broken", "wrong"]  # fmt: skip
    assert found["s1"]["problems"] == [workers.ENDED]


class Deadly(SandboxOpener):
    """Opens a sandbox that ends the grader's own process at the answer of student 1."""

    def __call__(self, files):
        sandbox = super().__call__(files)
        load_cell_function = sandbox.load_cell_function

        def load_or_exit(source, name):
            if "return 1 *" in source:
                os._exit(9)
            return load_cell_function(source, name)

        sandbox.load_cell_function = load_or_exit
        return sandbox

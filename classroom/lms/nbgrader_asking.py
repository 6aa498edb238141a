"""Asks the course about submissions: one process of its Python, which answers one by one.

The process ends with nbgrader's, or when it has not been asked for a while.
"""

import json
import subprocess
from pathlib import Path

_held: dict = {}  # "process": the one that runs; "last": (question, answer)


def asked_of_course(python, course, log, question: dict) -> dict:
    """What the checks say of a submission, as `judged.told_of` has it.

    An assignment has several notebooks, and its submission is judged once.
    Raises  RuntimeError if the course cannot judge it; the message is for the teacher
    """
    key = json.dumps([question, state_of(question["submission"])])
    if _held.get("last", ("",))[0] != key:
        _held["last"] = key, reply(python, course, question)
        tell(log, question["student"], _held["last"][1])
    return _held["last"][1]


def state_of(folder) -> list:
    """Changes with any file of a submission."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def reply(python, course, question) -> dict:
    process = running(python, course)
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    found = json.loads(line) if line else {"error": f"{python} has ended in {course}"}
    if "error" in found:
        raise RuntimeError(f"the course could not judge it: {found['error']}")
    return found


def running(python, course):
    """The process that judges; a new one if there is none any more."""
    process = _held.get("process")
    if process is None or process.poll() is not None:
        command = [python, "-m", "classroom.lms", "judge"]
        process = _held["process"] = subprocess.Popen(
            command, cwd=course, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    return process


def tell(log, student, found):
    """What the teacher should know, in nbgrader's log."""
    for problem in found["problems"]:
        log.warning("%s: %s", student, problem)
    for number, answer in found["answers"].items():
        for reason in answer["reasons"]:
            whose = "yours to decide: " if answer["is_open"] else ""
            log.warning("%s, exercise %s: %s%s", student, number, whose, reason)

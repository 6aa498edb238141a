"""Questions to the course about submissions, which one process of its Python answers one by one.

The process ends with nbgrader's, or when it has not been asked for a while.
"""

import json
import subprocess
from pathlib import Path

# "process": the one that runs; "of": the state of the course that it has read;
# "last": (question, answer)
_held: dict = {}
COURSE = ("chapters", "classroom", "coursekit", "labs", "notebooks", "pedagogy_lib", "solutions")


def begin(python, course, wishes: dict):
    """Prepare for the submissions of one `autograde`, and drop the verdict of an earlier one.

    Raises  RuntimeError if no submission can be judged by these wishes, or without a sandbox
    """
    _held.pop("last", None)
    reply(python, course, {"wishes": wishes})


def ask_course(python, course, log, question: dict) -> dict:
    """Return what the checks say of a submission, in the form of `platform_results.format_results`.

    An assignment has several notebooks, but its submission is judged once.
    Raises  RuntimeError if the course cannot judge it; the message is for the teacher
    """
    key = json.dumps([question, state_of(question["submission"])])
    if _held.get("last", ("",))[0] != key:
        _held["last"] = key, reply(python, course, question)
        tell(log, question["student"], _held["last"][1])
    return _held["last"][1]


def state_of(folder) -> list:
    """Return a list that changes with any file of a submission."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def reply(python, course, question) -> dict:
    text = json.dumps(question) + "\n"
    line = ask_process(ensure_process(python, course), text)
    line = line or ask_process(
        ensure_process(python, course), text
    )  # it may have ended just before, because it was idle
    found = json.loads(line) if line else {"error": f"{python} has ended in {course}"}
    if "error" in found:
        raise RuntimeError(f"the course could not judge: {found['error']}")
    return found


def ask_process(process, text) -> str:
    """Return the process's line, which is empty if the process has ended."""
    try:
        process.stdin.write(text)
        process.stdin.flush()
        line = process.stdout.readline()
    except OSError:
        line = ""
    if not line:
        process.kill()
        process.wait()
    return line


def ensure_process(python, course):
    """Return the judging process, a new one if it has ended or has read an older course."""
    process, state = _held.get("process"), (python, course, newest_of(course))
    if process is not None and _held["of"] != state:
        process.terminate()
        process.wait()
    if process is None or process.poll() is not None:
        command = [python, "-m", "classroom.lms", "judge"]
        process = subprocess.Popen(
            command, cwd=course, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        _held.update(process=process, of=state)
    return process


def newest_of(course) -> int:
    """Return when a file of the course was last written, in nanoseconds."""
    folders = [path for name in COURSE for path in Path(course, name).rglob("*")]
    kept = [path for path in folders if path.suffix in (".py", ".ipynb", ".json")]
    return max((path.stat().st_mtime_ns for path in kept), default=0)


def tell(log, student, found):
    """Write into nbgrader's log what the teacher should know."""
    for problem in found["problems"]:
        log.warning("%s: %s", student, problem)
    for number, answer in found["answers"].items():
        for reason in answer["reasons"]:
            whose = "yours to decide: " if answer["is_open"] else ""
            log.warning("%s, exercise %s: %s%s", student, number, whose, reason)

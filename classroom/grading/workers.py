"""Many students at a time: each worker process judges one submission after another.

What is judged is kept at once, so that neither an interrupt nor a kill loses it.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from . import course
from .collect import Submission
from .free import Free
from .judging import EMPTY, Judge, answers_in
from .known import Known, digest
from .programs import read_program

END_SECONDS = 5.0  # for a worker that is told to end, with all that it has started
KNOWN = "known"
ENDED = "the grader's own process has ended while it looked at this submission"


@dataclass(frozen=True)
class Task:
    """What is the same for all students. `open_place`: see Judge."""

    asked: tuple
    out: Path
    open_place: Callable
    given: frozenset = frozenset()


class Over(BaseException):
    """The grader has told its workers to end; no `except Exception` keeps this."""


def graded(submission: Submission, task: Task, tell=lambda number, is_new: None) -> dict:
    """The entry of a student in the results; `tell` hears of each answer.

    Its entries have `looks`: the sentences on suspicious statements; and `code`, a digest.
    """
    programs = [read_program(name, data) for name, data in sorted(submission.files.items())]
    problems = [*submission.problems, *(one for p in programs for one in p.problems)]
    answers, known = answers_in(task.asked, programs, task.given), Known(task.out / KNOWN)
    entries = {}
    with Judge(answers, task.open_place, Free(task.out / KNOWN / "course")) as judge:
        for asked in task.asked:
            code = digest_of(asked, answers)
            key = submission.student, asked.number, course.version(), code
            entry = known.get(*key)
            is_new = entry is None
            if is_new:
                entry = judge.judged(asked)
                if entry["state"] != "broken":
                    known.put(entry, *key)
            judge.states[asked.number] = entry["state"]
            looks = answers.looks[asked.number]
            entries[asked.number] = entry | {"looks": looks, "code": code}
            tell(asked.number, is_new)
    student = {"student": submission.student, "from": submission.came_from}
    return student | {"problems": problems, "answers": entries}


def digest_of(asked, answers) -> str:
    """Of all in a submission that the verdict on an answer may depend on."""
    found = answers.found[asked.number]
    parts = [found.state, found.source, found.shown, found.where, found.what, *found.reasons]
    uses_labs = asked.lab or answers.below[asked.number] or "lab(" in found.source
    for name, data in sorted(answers.files.items()):
        if uses_labs or name.rsplit("/", 1)[-1].removesuffix(".py") in found.source:
            parts += [name, data]
    return digest(*parts)


# ---- In a worker ---


def work(pipe, task: Task):
    """Judge what comes, until nothing comes any more."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end_now)
    end_with_parent()
    with contextlib.suppress(Over, EOFError, BrokenPipeError):
        while (submission := pipe.recv()) is not None:
            pipe.send(("done", graded(submission, task, lambda *told: pipe.send(("one", told)))))


def end_now(*_):
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # once is enough: what it holds is put away now
    raise Over


def end_with_parent():
    """On Linux, be told when the grader is killed: nobody else would."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
        if os.getppid() == 1:
            raise SystemExit


# ---- In the grader ---


class Worker:
    """One process and the student that it is at."""

    def __init__(self, task):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, task))
        self.process.start()
        theirs.close()
        self.submission = None

    def give(self, submission):
        self.submission = submission
        self.pipe.send(submission)

    def end(self):
        """With all that it has started."""
        self.process.terminate()
        self.process.join(END_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def grade_all(submissions, task: Task, jobs: int, tell=lambda *told: None) -> Iterator[dict]:
    """Yield the entry of each student, as they come; at an interrupt no process is left."""
    todo, workers = deque(submissions), []
    try:
        for _ in range(min(jobs, len(todo))):
            workers.append(Worker(task))
            workers[-1].give(todo.popleft())
        while busy := [worker for worker in workers if worker.submission is not None]:
            ready = wait([worker.pipe for worker in busy])
            for worker in [one for one in busy if one.pipe in ready]:
                yield from heard(worker, workers, todo, task, tell)
    finally:
        for worker in workers:
            worker.end()


def heard(worker, workers, todo, task, tell):
    """Yield what a worker has finished, and give it more."""
    try:
        what, value = worker.pipe.recv()
    except (EOFError, OSError):  # it has died; another one takes its place
        yield nothing_known(worker.submission, task)
        worker.end()
        workers.remove(worker)
        if todo:
            workers.append(Worker(task))
            workers[-1].give(todo.popleft())
        return
    if what == "one":
        tell(worker.submission.student, *value)
        return
    yield value
    worker.submission = None
    if todo:
        worker.give(todo.popleft())


def nothing_known(submission, task) -> dict:
    entry = EMPTY | {"state": "broken", "what": ENDED, "looks": [], "code": ""}
    student = {"student": submission.student, "from": submission.came_from}
    problems = [*submission.problems, ENDED]
    return student | {"problems": problems, "answers": {a.number: entry for a in task.asked}}

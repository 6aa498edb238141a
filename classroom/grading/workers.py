"""The workers, processes that judge one submission after another, for many students at a time.

Each verdict is kept at once, so that neither an interrupt nor a kill loses it.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path

from . import course
from .baseline_credit import Free
from .collect import Submission
from .judge import EMPTY, MOST_SHOWN, Judge, answers_in
from .programs import read_program
from .verdict_cache import VerdictCache, digest

END_SECONDS = 5.0  # for a worker that is told to end, with all that it has started
KNOWN = "known"
ENDED = "the grader's own process has ended while it looked at this submission"
DIED = {"state": "broken", "what": ENDED}
WAITING = {"state": "waiting", "what": "not judged yet: the grading was interrupted"}
NO_VERDICT = ("broken", "waiting")  # the next grading tries these again


@dataclass(frozen=True)
class Task:
    """The settings that are the same for all students; Judge explains `open_sandbox_for`."""

    asked: tuple
    out: Path
    open_sandbox_for: Callable
    given: frozenset = frozenset()


class WorkerStop(BaseException):
    """The grader's order to a worker to end, which no `except Exception` catches."""


def grade_submission(
    submission: Submission, task: Task, tell=lambda number, is_new: None, skipped=None
) -> dict:
    """Return the entry of a student in the results; `tell` is called with each answer.

    skipped  {number: fields of its entry}: answers that are not run, only looked up
    Its entries have `looks`, the sentences on suspicious statements, and `code`, a digest.
    """
    programs = [read_program(name, data) for name, data in sorted(submission.files.items())]
    problems = [*submission.problems, *(one for p in programs for one in p.problems)]
    answers, known = answers_in(task.asked, programs, task.given), VerdictCache(task.out / KNOWN)
    entries = {}
    with Judge(answers, task.open_sandbox_for, Free(task.out / KNOWN / "course")) as judge:
        for asked in task.asked:
            code = digest_of(asked, answers)
            key = submission.student, asked.number, course.version(), code
            entry = known.get(*key)
            is_new = entry is None
            if is_new:
                entry = build_skip_entry(asked, answers, skipped or {}) or judge.judge_answer(asked)
                if entry["state"] not in NO_VERDICT:
                    known.put(entry, *key)
            judge.states[asked.number] = entry["state"]
            looks = answers.looks[asked.number]
            entries[asked.number] = entry | {"looks": looks, "code": code}
            tell(asked.number, is_new)
    student = {"student": submission.student, "from": submission.came_from}
    return student | {"problems": problems, "answers": entries}


def build_skip_entry(asked, answers, skipped) -> dict:
    """Return the entry of a skipped answer, or {} if there is nothing in it to run."""
    found = answers.found[asked.number]
    if asked.number not in skipped or found.state != "written":
        return {}
    return EMPTY | {"where": found.where, "source": found.shown[:MOST_SHOWN]} | (
        skipped[asked.number])  # fmt: skip


def digest_of(asked, answers) -> str:
    """Return a digest of all in a submission that the verdict on an answer may depend on."""
    found = answers.found[asked.number]
    parts = [found.state, found.source, found.shown, found.where, found.what, *found.reasons]
    uses_labs = asked.lab or answers.below[asked.number] or "lab(" in found.source
    for name, data in sorted(answers.files.items()):
        if uses_labs or name.rsplit("/", 1)[-1].removesuffix(".py") in found.source:
            parts += [name, data]
    return digest(*parts)


# ---- In a worker ---


def work(pipe, task: Task):
    """Judge the submissions that arrive in the pipe, until None arrives."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end_now)
    end_with_parent()
    with contextlib.suppress(WorkerStop, EOFError, BrokenPipeError):
        while (given := pipe.recv()) is not None:
            submission, skipped = given
            tell = lambda *told: pipe.send(("one", told))  # noqa: E731
            pipe.send(("done", grade_submission(submission, task, tell, skipped)))


def end_now(*_):
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # once is enough: the worker cleans up now
    raise WorkerStop


def end_with_parent():
    """Ask Linux to send SIGTERM when the grader is killed, which nothing else would report."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
        if os.getppid() == 1:
            raise SystemExit


# ---- In the grader ---


class Worker:
    """One process, its present student, and the numbers of the answers that it has reported."""

    def __init__(self, task):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, task))
        self.process.start()
        theirs.close()
        self.submission = None

    def give(self, submission, skipped):
        self.submission, self.skipped, self.told = submission, skipped, set()
        with contextlib.suppress(BrokenPipeError):  # it has died, as its end of the pipe will show
            self.pipe.send((submission, skipped))

    def end(self):
        """End the process with all that it has started."""
        self.process.terminate()
        self.process.join(END_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def grade_all(
    submissions, task: Task, jobs: int, tell=lambda *told: None, skipped=None
) -> Iterator[dict]:
    """Yield each student's entry as soon as it is known; an interrupt leaves no process behind.

    skipped  see `grade_submission`
    """
    todo, workers = deque((one, skipped or {}) for one in submissions), []
    try:
        for _ in range(min(jobs, len(todo))):
            workers.append(Worker(task))
            workers[-1].give(*todo.popleft())
        while busy := [worker for worker in workers if worker.submission is not None]:
            ready = wait([worker.pipe for worker in busy])
            for worker in [one for one in busy if one.pipe in ready]:
                yield from receive_results(worker, workers, todo, task, tell)
    finally:
        for worker in workers:
            worker.end()


def receive_results(worker, workers, todo, task, tell):
    """Yield the entry that a worker has finished, and give it the next submission."""
    try:
        what, value = worker.pipe.recv()
    except (EOFError, OSError):  # it has died, and another one replaces it
        worker.end()
        workers.remove(worker)
        if len(worker.skipped) < len(task.asked):
            todo.appendleft(once_more(worker, task))
        else:
            yield build_failure_entry(worker.submission, worker.skipped)
        if todo:
            workers.append(Worker(task))
            workers[-1].give(*todo.popleft())
        return
    if what == "one":
        worker.told.add(value[0])
        tell(worker.submission.student, *value)
        return
    yield value
    worker.submission = None
    if todo:
        worker.give(*todo.popleft())


def once_more(worker, task) -> tuple[Submission, dict]:
    """Skip the answer at which a worker died, or all answers if that has not been enough."""
    left = [asked.number for asked in task.asked if asked.number not in worker.told]
    if left and (worker.told or not worker.skipped):
        skipped = worker.skipped | {left[0]: DIED}
    else:
        skipped = {asked.number: DIED for asked in task.asked}
    before = [said for said in worker.submission.problems if said != ENDED]
    return replace(worker.submission, problems=[*before, ENDED]), skipped


def build_failure_entry(submission, skipped) -> dict:
    """Return the entry of a submission that ends the process as soon as it is read."""
    empty = EMPTY | {"looks": [], "code": ""}
    student = {"student": submission.student, "from": submission.came_from}
    problems = list(dict.fromkeys([*submission.problems, ENDED]))
    answers = {number: empty | entry for number, entry in skipped.items()}
    return student | {"problems": problems, "answers": answers}

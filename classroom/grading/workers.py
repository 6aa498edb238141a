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
    """What is the same for all students. `open_place`: see Judge."""

    asked: tuple
    out: Path
    open_place: Callable
    given: frozenset = frozenset()


class WorkerStop(BaseException):
    """The grader has told its workers to end; no `except Exception` keeps this."""


def grade_submission(
    submission: Submission, task: Task, tell=lambda number, is_new: None, skipped=None
) -> dict:
    """The entry of a student in the results; `tell` hears of each answer.

    skipped  {number: what its entry says}: answers that are not run, only looked up
    Its entries have `looks`: the sentences on suspicious statements; and `code`, a digest.
    """
    programs = [read_program(name, data) for name, data in sorted(submission.files.items())]
    problems = [*submission.problems, *(one for p in programs for one in p.problems)]
    answers, known = answers_in(task.asked, programs, task.given), VerdictCache(task.out / KNOWN)
    entries = {}
    with Judge(answers, task.open_place, Free(task.out / KNOWN / "course")) as judge:
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
    """The entry of an answer that is skipped; none if there is nothing in it to run."""
    found = answers.found[asked.number]
    if asked.number not in skipped or found.state != "written":
        return {}
    return EMPTY | {"where": found.where, "source": found.shown[:MOST_SHOWN]} | (
        skipped[asked.number])  # fmt: skip


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
    with contextlib.suppress(WorkerStop, EOFError, BrokenPipeError):
        while (given := pipe.recv()) is not None:
            submission, skipped = given
            tell = lambda *told: pipe.send(("one", told))  # noqa: E731
            pipe.send(("done", grade_submission(submission, task, tell, skipped)))


def end_now(*_):
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # once is enough: what it holds is put away now
    raise WorkerStop


def end_with_parent():
    """On Linux, be told when the grader is killed: nobody else would."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
        if os.getppid() == 1:
            raise SystemExit


# ---- In the grader ---


class Worker:
    """One process, the student that it is at, and the numbers that it has told of this one."""

    def __init__(self, task):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, task))
        self.process.start()
        theirs.close()
        self.submission = None

    def give(self, submission, skipped):
        self.submission, self.skipped, self.told = submission, skipped, set()
        with contextlib.suppress(BrokenPipeError):  # it has died: its end of the pipe tells
            self.pipe.send((submission, skipped))

    def end(self):
        """With all that it has started."""
        self.process.terminate()
        self.process.join(END_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def grade_all(
    submissions, task: Task, jobs: int, tell=lambda *told: None, skipped=None
) -> Iterator[dict]:
    """Yield the entry of each student, as they come; at an interrupt no process is left.

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
    """Yield what a worker has finished, and give it more."""
    try:
        what, value = worker.pipe.recv()
    except (EOFError, OSError):  # it has died; another one takes its place
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
    """The submission without the answer at which a worker has died; without any, if that is
    not enough: then it was no answer that has ended it."""
    left = [asked.number for asked in task.asked if asked.number not in worker.told]
    if left and (worker.told or not worker.skipped):
        skipped = worker.skipped | {left[0]: DIED}
    else:
        skipped = {asked.number: DIED for asked in task.asked}
    before = [said for said in worker.submission.problems if said != ENDED]
    return replace(worker.submission, problems=[*before, ENDED]), skipped


def build_failure_entry(submission, skipped) -> dict:
    """Of a submission that cannot even be read without ending the process."""
    empty = EMPTY | {"looks": [], "code": ""}
    student = {"student": submission.student, "from": submission.came_from}
    problems = list(dict.fromkeys([*submission.problems, ENDED]))
    answers = {number: empty | entry for number, entry in skipped.items()}
    return student | {"problems": problems, "answers": answers}

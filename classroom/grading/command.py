"""python -m classroom.grading SUBMISSIONS: grade a class, and report what was found."""

import argparse
import functools
import importlib
import importlib.util
import os
import signal
import sys
from pathlib import Path

from pedagogy_lib.basics.errors import LaunchError, WrongInput
from pedagogy_lib.basics.units import format_count

from . import course, result_files
from .collect import collect
from .workers import WAITING, Task, grade_all

INTERRUPTED = 130  # exit status, as of a program that SIGINT has ended
GO_ON = "the same command goes on from here"


def arguments(given=None):
    parser = argparse.ArgumentParser(prog="python -m classroom.grading", description=__doc__)
    parser.add_argument("submissions", help="a folder, or a platform's archive")
    parser.add_argument("--chapters", default="", help='such as "02 06", or parts: "02b"')
    parser.add_argument("--exercises", default="", help='such as "2.8 2.9"')
    parser.add_argument("--out", type=Path, default=Path("grades"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--title", default="")
    parser.add_argument("--trust", action="store_true", help="run students' code without walls")
    parser.add_argument("--given", default="", metavar="NUMBERS", help=(
        'exercises or chapters, such as "02", whose solutions stand in where a student has none; '
        "students' code can read them"))  # fmt: skip
    parser.add_argument("--accept", action="append", default=[], metavar="STUDENT:NUMBER",
                        help="an answer with an unusual statement: it is harmless")  # fmt: skip
    return parser.parse_args(given)


def main(given=None) -> int:
    options = arguments(given)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it, too, keeps what is known
    try:
        return grade(options)
    except (WrongInput, LaunchError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted: {GO_ON}", file=sys.stderr)
        return INTERRUPTED


def grade(options) -> int:
    if not (options.chapters or options.exercises):
        raise WrongInput('say what to grade: --chapters "02", or --exercises "2.8 2.9"')
    asked = course.list_exercises(options.chapters.split(), options.exercises.split())
    opened = opener(options.trust, asked)
    task = Task(tuple(asked), options.out, opened, parse_given_numbers(options.given))
    if not options.submissions:
        raise WrongInput("say where the submissions are: make grade SUBMISSIONS=folder")
    layout, submissions = collect(Path(options.submissions), asked)
    if not submissions:
        raise WrongInput(f"there are no submissions in {options.submissions} ({layout})")
    found = f"{options.submissions}: {layout}; {len(submissions)} submissions"
    print(result_files.printable(found), flush=True)
    students, is_whole = all_of(submissions, task, max(1, options.jobs))
    waiting = finish(options, asked, students)
    if not is_whole:
        said = f"{format_count(waiting, 'answer')} not judged yet: " if waiting else ""
        print(f"interrupted: {said}{GO_ON}", file=sys.stderr)
    return 0 if is_whole else INTERRUPTED


def opener(trust, asked):
    """Return a function that opens a submission's sandbox; raise WrongInput if there is none."""
    from classroom.sandbox import open_sandbox
    from classroom.sandbox.backends import choose_backend

    way = choose_backend("trust" if trust else None).NAME
    numbers = [one.number for one in asked]
    return functools.partial(open_sandbox, way=way, exercises=numbers)


def parse_given_numbers(text) -> frozenset[str]:
    words = text.split()
    chapters = [word for word in words if "." not in word]
    exercises = [word for word in words if "." in word]
    return frozenset(one.number for one in course.list_exercises(chapters, exercises))


def all_of(submissions, task, jobs) -> tuple[list[dict], bool]:
    """Return (entries, whether complete); after an interrupt, look up what is known of the rest."""
    students: list[dict] = []
    with bar(len(submissions) * len(task.asked)) as told:
        try:
            for entry in grade_all(submissions, task, jobs, told):
                students.append(entry)
            return students, True
        except KeyboardInterrupt:
            pass
    print("interrupted: looking up what is known of the rest", file=sys.stderr)
    seen = {one["student"] for one in students}
    rest = [one for one in submissions if one.student not in seen]
    skipped = {one.number: WAITING for one in task.asked}
    return [*students, *grade_all(rest, task, jobs, skipped=skipped)], False


class bar:
    """A progress bar on a terminal, nothing in a pipe; it is called with each answer."""

    def __init__(self, total):
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # so that it starts no thread
        self.bar = tqdm(total=total, unit="answer", disable=not sys.stderr.isatty(), leave=False)

    def __call__(self, student, number, is_new):
        self.bar.set_postfix_str(f"{result_files.printable(student):.20} {number}", refresh=False)
        self.bar.update()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bar.close()


def finish(options, asked, students) -> int:
    """Write and print all results, and return how many answers are not judged yet.

    An interrupted grading removes no verdict: if it would, it leaves the files as they are.
    """
    students = sorted(students, key=lambda one: one["student"].casefold())
    wishes = [wish.rpartition(":")[::2] for wish in options.accept]
    accepted, unknown = result_files.accept(
        wishes, students, result_files.read_accepted(options.out)
    )
    title = options.title or f"Grades of {Path(options.submissions).resolve().name}"
    results = result_files.results_of(title, course.version(), asked, students, accepted)
    waiting = len(result_files.find_waiting_answers(results))
    if lost := result_files.would_be_lost(results, options.out):
        print(f"{options.out} is left as it was: it has verdicts on {format_count(lost, 'answer')} "
              "that this grading has not come to")  # fmt: skip
        return waiting
    result_files.write(results, accepted, options.out)
    if importlib.util.find_spec("classroom.pages"):
        importlib.import_module("classroom.pages").write(results, options.out)
    print(result_files.summary(results))
    for wish in unknown:
        print(f"--accept {wish}: there is no such student with such an exercise", file=sys.stderr)
    print(f"written: {options.out}/{result_files.GRADES}, {options.out}/{result_files.RESULTS}")
    return waiting

"""`check` and `hint`: trials of an answer on many cases, and diagnoses of a wrong answer.

The exercises themselves are in chapters/*/exercises/*/check.py. An exercise examines an answer: it
yields one line for each right case, and raises `Wrong` at the first wrong one.
"""

import ast
import importlib
import inspect
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from pedagogy_lib.basics.errors import WrongInput, need, need_course
from pedagogy_lib.basics.source_lines import where_is
from pedagogy_lib.basics.text_wrap import wrap
from pedagogy_lib.basics.units import brief, format_count
from pedagogy_lib.ranks.output import ProgressLine

from . import content
from .answers.answer_limits import Endless, OutputCapture, watch_answer
from .answers.exact_errors import where_raised
from .answers.remote_answer import AnswerProcessFailed, RemoteAnswer
from .chapters import FOLDER, exercise_folders, insert_numbers
from .labs import LabFunction, find_lab
from .labs.holes import is_hole
from .labs.module import describe_save_time
from .progress.learner_state import note_check
from .protocol import Exercise, Wrong
from .verdicts import Verdict

BELOW_SECONDS = 10.0  # for an exercise that another is built on; a hanging case takes half of it


def check(number: str, answer: Callable | None = None) -> Verdict:
    """Try the answer to an exercise on all its cases, on real ranks where it needs them.

    number  the exercise's number: "2.3"
    answer  the function of the cell; left out for an exercise in a lab, whose file is read again
    Raises  WrongInput for a number that does not exist or has no quotes, or an answer that is not
            a function
    """
    exercise = find_exercise(number)
    verdict = check_lab(exercise, answer) if exercise.lab else check_cell(exercise, answer)
    note_check(exercise.number, verdict.passed)
    return verdict


def check_cell(exercise, answer) -> Verdict:
    if not callable(answer):
        raise WrongInput(f'give check() your function: check("{exercise.number}", {exercise.name})')
    if has_hole(answer):
        return not_attempted(exercise, f"write {exercise.name} in its cell, and run that again")
    return run_check(exercise, answer, title_of(exercise))


def check_lab(exercise, answer=None) -> Verdict:
    """Return the verdict on the function that a learner has written in a lab.

    Raises  WrongInput if a function was given nevertheless
    """
    if answer is not None:
        where, number = f"labs/{exercise.lab}.py", exercise.number
        raise WrongInput(f'exercise {number} is in {where}: check("{number}") reads it there')
    lab = find_lab(exercise.lab)
    loaded = lab._newest()
    if loaded.problem:
        return reject_answer(exercise, title_of(exercise), [], Wrong("your file", loaded.problem))
    if loaded.whose.get(exercise.name, "yours") != "yours":
        return not_written(exercise, loaded)
    answer = LabFunction(lab, exercise.name)
    title = f"{title_of(exercise)}, labs/{exercise.lab}.py"
    return run_check(exercise, answer, f"{title}{describe_save_time(loaded.path)}")


def title_of(exercise) -> str:
    return f"Exercise {exercise.number} · {exercise.name}"


def not_attempted(exercise, what_to_do) -> Verdict:
    return withhold_verdict(exercise, f"not attempted yet; {what_to_do}")


def withhold_verdict(exercise, what) -> Verdict:
    """Return a verdict that is neither passed nor failed (`passed` is None), and says `what`."""
    return Verdict(f"{title_of(exercise)}: {what}", None, [], hints=exercise.hints)


def not_written(exercise, loaded) -> Verdict:
    """Return the verdict on an exercise in a lab that the learner has not written yet."""
    left, begun = ", ".join(loaded.holes.get(exercise.name, ())), exercise.name in loaded.begun
    line = loaded.to_write.get(exercise.name)
    where = where_is(str(loaded.path), line) if line else f"labs/{exercise.lab}.py"
    if begun or (left and not loaded.solution):  # no solution shows whether it is begun
        partly = "partly written; " if begun else ""
        return withhold_verdict(exercise, f"{partly}still to write: {left}, from {where} on")
    return not_attempted(exercise, f"write {exercise.name} at {where}, and save that file")


def run_check(exercise, answer, title) -> Verdict:
    """Try an answer on all cases, capture what it prints, and return the verdict."""
    found, progress = [], ProgressLine()
    try:
        with watch_answer(progress, is_here=not isinstance(answer, RemoteAnswer)) as printed:
            wrong = find_mistake(exercise, answer, found, progress)
    finally:
        progress.close()
    if isinstance(answer, RemoteAnswer):
        printed = OutputCapture.capture_text(answer.process.read_output())
    lines = [one for one in found if isinstance(one, str)]
    pictures = [one for one in found if not isinstance(one, str)]
    if wrong is None:
        return Verdict(title, True, lines, printed=printed, pictures=pictures)
    return reject_answer(exercise, title, lines, wrong, printed, pictures)


def find_mistake(exercise, answer, found, progress) -> Wrong | None:
    """Return the `Wrong` of an answer, or None; add the lines and pictures of cases to `found`."""
    try:
        for one in exercise.examine(answer):
            found.append(insert_numbers(one) if isinstance(one, str) else one)
            passed = sum(isinstance(one, str) for one in found)
            progress.tick(f"{format_count(passed, 'case')} passed, the check goes on")
    except Wrong as wrong:
        wrong = fault_below(exercise, answer) or wrong
        return Wrong(wrong.case, insert_numbers(wrong.what), insert_numbers(wrong.why))
    except Endless as endless:
        what = f"it still runs after {endless.seconds:.0f} s\n  at {endless.source_line}"
        why = getattr(exercise, "slow", "") or "a loop that never ends?"
        return Wrong("your function", what, insert_numbers(why))
    except AnswerProcessFailed as ended:
        return Wrong("your function", ended.what, ended.why)
    except (Exception, SystemExit) as error:
        source_line = where_raised(error)
        if source_line is None:
            raise  # not the learner's fault
        what = f"it raised {type(error).__name__}: {error}\n  at {source_line}"
        return Wrong("your function", what)
    return None


def reject_answer(exercise, title, lines, wrong, printed=None, pictures=()) -> Verdict:
    """Return the verdict on a wrong answer."""
    folds = finds_a_bug(exercise)
    return Verdict(title, False, lines, wrong, exercise.hints, folds, printed, pictures)


def fault_below(exercise, answer) -> Wrong | None:
    """Return the `Wrong` of a lab's function that the answer is built on, or None."""
    for name in getattr(exercise, "needs", ()):
        needed = exercise_named(name)
        try:
            until = time.monotonic() + BELOW_SECONDS
            for _ in needed.examine(function_below(answer, exercise, needed)):
                if time.monotonic() > until:
                    break
        except Wrong as wrong:
            what = f"{needed.name}, which this is built on: {wrong.what}"
            return Wrong(wrong.case, what, f'first: check("{needed.number}")')
    return None


def function_below(answer, exercise, needed):
    """Return the function of another exercise that an answer is built on."""
    if isinstance(answer, RemoteAnswer):
        return answer.find_dependency(needed.lab, needed.name)
    lab = answer.lab if exercise.lab == needed.lab else find_lab(needed.lab)
    return LabFunction(lab, needed.name)


def find_exercise(number: str) -> Exercise:
    """Return the exercise with a number such as "2.10", which may have zeros in front: "02.10".

    Raises  WrongInput for a number that does not exist or has no quotes
    """
    quoted = 'write the number of an exercise in quotes, as in check("2.10")'
    need(not isinstance(number, float), f"{quoted}: without them it is 2.1")
    need(isinstance(number, str), f"{quoted}, not {brief(number)}")
    parts = number.strip().split(".")
    chapter, *_ = parts = [part.lstrip("0") or "0"[: len(part)] for part in parts]
    need_course(FOLDER)
    known = ", ".join(chapters_with_checks())
    there_is_none = f"there is no exercise {brief(number)}"
    everything = exercises_of(chapter)
    need(everything, f"{there_is_none}: checks are there for chapters {known}")
    number = ".".join(parts)
    need(number in everything, f"{there_is_none}; there are: {', '.join(everything)}")
    return everything[number]


def exercise_named(name: str) -> Exercise:
    """Return the exercise whose folder has this name."""
    return load_exercise(next(n for n, folder in exercise_folders().items() if folder.name == name))


def chapters_with_checks() -> list[str]:
    """Return the numbers of the chapters that have exercises."""
    return list(dict.fromkeys(number.partition(".")[0] for number in exercise_folders()))


def exercises_of(chapter: str) -> "Exercises":
    """Return the exercises of a chapter by their numbers; the mapping may be empty."""
    return Exercises(n for n in exercise_folders() if n.partition(".")[0] == chapter)


class Exercises(Mapping):
    """A mapping {number: exercise} that imports an exercise when it is asked for."""

    def __init__(self, numbers):
        self.numbers = tuple(numbers)

    def __getitem__(self, number) -> Exercise:
        if number not in self.numbers:
            raise KeyError(number)
        return load_exercise(number)

    def __iter__(self):
        return iter(self.numbers)

    def __len__(self):
        return len(self.numbers)


def module_of(number: str):
    """Import the check of an exercise."""
    folder = exercise_folders()[number]
    chapter = folder.parent.parent.name
    return importlib.import_module(f"{content.__name__}.{chapter}.exercises.{folder.name}.check")


@cache
def load_exercise(number: str) -> Exercise:
    exercise, folder = module_of(number).EXERCISE, exercise_folders()[number].name
    need(
        exercise.name.lower().replace("_", "") in folder.replace("_", ""),
        f"exercises/{folder}/check.py defines {exercise.name}: give it the name of its folder",
    )
    return replace(exercise, number=number, hints=tuple(map(insert_numbers, exercise.hints)))


def finds_a_bug(exercise) -> bool:
    """Return whether the exercise is a program whose bug the learner has to find."""
    known = exercise.number in exercise_folders()
    return known and getattr(module_of(exercise.number), "FINDS_A_BUG", False)


def has_hole(function) -> bool:
    """Return whether a function of a cell still has the three dots of its hole."""
    try:
        return is_hole(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):  # there is no source, or it is part of a line
        return False


_hints_shown: dict[str, int] = {}


def hint(number: str):
    """Print the hints for an exercise, one more at each call; after the last one, all of them stay.

    Raises  WrongInput for a number that does not exist or has no quotes
    """
    exercise = find_exercise(number)
    number, hints = exercise.number, exercise.hints
    shown = _hints_shown[number] = min(_hints_shown.get(number, 0) + 1, len(hints))
    for step, text in enumerate(hints[:shown], 1):
        print(*wrap(text, f"{step} of {len(hints)}: "), sep="\n")

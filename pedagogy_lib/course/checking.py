"""`check` and `hint`: try an answer on many cases, and say what a wrong one has misunderstood.

The exercises themselves are in exercises/chNN/exNN_name.py. An exercise examines an answer: it
yields one line for each case that is right, and raises `Wrong` at the first that is not.
"""

import ast
import importlib
import inspect
import re
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..basics.errors import HangError, LaunchError, RankError, WrongInput, need
from ..basics.places import where_is
from ..basics.units import brief, counted
from ..basics.wrapping import wrap
from ..ranks.output import Progress
from ..ranks.run import Run
from ..ranks.waiting import patiently
from .exact_errors import where_raised
from .kept import note_check
from .lab_function import LabFunction
from .lab_holes import is_hole
from .labs import find_lab
from .loaded_labs import NotSolvedYet, as_saved
from .trying import Ended, Submitted, launched_there
from .verdicts import Verdict
from .watching import Endless, Printed, watched

EXERCISES = Path(__file__).parents[1] / "exercises"
TIMEOUT_SECONDS = 5.0  # for a case: its tensors are small, and who hangs is told within six seconds
BELOW_SECONDS = 10.0  # for an exercise that another is built on; a case that hangs takes half of it


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    name     of the function to write
    examine  takes the answer; see the module's docstring. It may yield a `Picture`, too
    hints    in steps, from a nudge to nearly the answer
    lab      the lab that the function is in; None if it is in a cell of the chapter
    needs    numbers of exercises in labs that it is built on: if an answer is wrong, these are
             looked at first
    slow     which misconception it is if an answer runs on and on, where that is no endless loop
    """

    number: str
    name: str
    examine: Callable[[Callable], Iterator[str]]
    hints: tuple[str, ...]
    lab: str | None = None
    needs: tuple[str, ...] = ()
    slow: str = ""


class Wrong(Exception):
    """An answer is wrong.

    case  in which it was found
    what  is wrong: where, what was expected, what came
    why   which misconception that looks like; may be empty
    """

    def __init__(self, case, what, why=""):
        super().__init__(case, what, why)
        self.case, self.what, self.why = case, what, why


def check(number: str, answer: Callable | None = None) -> Verdict:
    """Try the answer to an exercise on all its cases, on real ranks where it needs them.

    number  of the exercise: "2.3"
    answer  the function of the cell; for an exercise in a lab nothing, the file is read anew
    Raises  WrongInput for a number that there is not, or that has no quotes, or an answer that
            is not a function
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
    return examine(exercise, answer, title_of(exercise))


def check_lab(exercise, answer=None) -> Verdict:
    if answer is not None:
        where, number = f"labs/{exercise.lab}.py", exercise.number
        raise WrongInput(f'exercise {number} is in {where}: check("{number}") reads it there')
    lab = find_lab(exercise.lab)
    loaded = lab._newest()
    if loaded.problem:
        return found_in(exercise, title_of(exercise), [], Wrong("your file", loaded.problem))
    if loaded.whose.get(exercise.name, "yours") != "yours":
        return not_written(exercise, loaded)
    answer = LabFunction(lab, exercise.name)
    title = f"{title_of(exercise)}, labs/{exercise.lab}.py"
    return examine(exercise, answer, f"{title}{as_saved(loaded.path)}")


def title_of(exercise) -> str:
    return f"Exercise {exercise.number} · {exercise.name}"


def not_attempted(exercise, what_to_do) -> Verdict:
    return unfinished(exercise, f"not attempted yet; {what_to_do}")


def unfinished(exercise, what) -> Verdict:
    return Verdict(f"{title_of(exercise)}: {what}", None, [], hints=exercise.hints)


def not_written(exercise, loaded) -> Verdict:
    """Of an exercise in a lab that still has holes."""
    left, begun = ", ".join(loaded.holes.get(exercise.name, ())), exercise.name in loaded.begun
    line = loaded.to_write.get(exercise.name)
    where = where_is(str(loaded.path), line) if line else f"labs/{exercise.lab}.py"
    if begun or (left and not loaded.solution):  # without that nobody can tell if it is begun
        partly = "partly written; " if begun else ""
        return unfinished(exercise, f"{partly}still to write: {left}, from {where} on")
    return not_attempted(exercise, f"write {exercise.name} at {where}, and save that file")


def examine(exercise, answer, title) -> Verdict:
    found, progress = [], Progress()
    try:
        with watched(progress, is_here=not isinstance(answer, Submitted)) as printed:
            wrong = examined(exercise, answer, found, progress)
    finally:
        progress.close()
    if isinstance(answer, Submitted):
        printed = Printed.of(answer.elsewhere.printed())
    lines = [one for one in found if isinstance(one, str)]
    pictures = [one for one in found if not isinstance(one, str)]
    if wrong is None:
        return Verdict(title, True, lines, printed=printed, pictures=pictures)
    return found_in(exercise, title, lines, wrong, printed, pictures)


def examined(exercise, answer, found, progress) -> Wrong | None:
    """What is wrong with an answer, if anything is; `found` is what the cases before it gave."""
    try:
        for one in exercise.examine(answer):
            found.append(one)
            passed = sum(isinstance(one, str) for one in found)
            progress.tick(f"{counted(passed, 'case')} passed, the check goes on")
    except Wrong as wrong:
        return fault_below(exercise, answer) or wrong
    except Endless as endless:
        what = f"it still runs after {endless.seconds:.0f} s\n  at {endless.place}"
        why = getattr(exercise, "slow", "") or "a loop that never ends?"
        return Wrong("your function", what, why)
    except Ended as ended:
        return Wrong("your function", ended.what, ended.why)
    except (Exception, SystemExit) as error:
        place = where_raised(error)
        if place is None:
            raise  # not the learner's fault
        what = f"it raised {type(error).__name__}: {error}\n  at {place}"
        return Wrong("your function", what)
    return None


def found_in(exercise, title, lines, wrong, printed=None, pictures=()) -> Verdict:
    """The verdict on an answer that is wrong."""
    folds = finds_a_bug(exercise)
    return Verdict(title, False, lines, wrong, exercise.hints, folds, printed, pictures)


def fault_below(exercise, answer) -> Wrong | None:
    """What is wrong with a function of the lab that the answer is built on, if anything is."""
    for number in getattr(exercise, "needs", ()):
        needed = find_exercise(number)
        try:
            until = time.monotonic() + BELOW_SECONDS
            for _ in needed.examine(function_below(answer, exercise, needed)):
                if time.monotonic() > until:
                    break
        except Wrong as wrong:
            what = f"{needed.name}, which this is built on: {wrong.what}"
            return Wrong(wrong.case, what, f'first: check("{number}")')
    return None


def function_below(answer, exercise, needed):
    """The function of another exercise that an answer is built on."""
    if isinstance(answer, Submitted):
        return answer.below(needed.lab, needed.name)
    lab = answer.lab if exercise.lab == needed.lab else find_lab(needed.lab)
    return LabFunction(lab, needed.name)


def find_exercise(number: str) -> Exercise:
    quoted = 'write the number of an exercise in quotes, as in check("2.10")'
    need(not isinstance(number, float), f"{quoted}: without them it is 2.1")
    need(isinstance(number, str), f"{quoted}, not {brief(number)}")
    parts = number.strip().split(".")
    chapter, *_ = parts = [part.lstrip("0") or "0"[: len(part)] for part in parts]
    known = ", ".join(chapters_with_checks())
    there_is_none = f"there is no exercise {brief(number)}"
    everything = modules_of(chapter) if re.fullmatch(r"\d{1,2}", chapter) else {}
    need(everything, f"{there_is_none}: checks are there for chapters {known}")
    number = ".".join(parts)
    need(number in everything, f"{there_is_none}; there are: {', '.join(everything)}")
    return loaded(everything[number])


def chapters_with_checks() -> list[str]:
    """The numbers of the chapters that have exercises."""
    folders = EXERCISES.glob("ch[0-9][0-9]")
    return [str(number) for number in sorted(int(folder.name[2:]) for folder in folders)]


def modules_of(chapter: str = "??") -> dict[str, str]:
    """{number: module} of a chapter's exercises, or of all: `ch06/ex03_name.py` is that of 6.3."""
    files = sorted(EXERCISES.glob(f"ch{chapter:0>2}/ex[0-9][0-9]_*.py"))
    return {number_of(file): f"{file.parent.name}.{file.stem}" for file in files}


def number_of(file) -> str:
    return f"{int(file.parent.name[2:])}.{int(file.stem[2:4])}"


def module_of(name: str):
    return importlib.import_module(f"pedagogy_lib.exercises.{name}")


def loaded(module: str) -> Exercise:
    return module_of(module).EXERCISE


def finds_a_bug(exercise) -> bool:
    """Whether the exercise is a program whose bug the learner is to find."""
    chapter, _, place = exercise.number.partition(".")
    files = EXERCISES.glob(f"ch{chapter:0>2}/ex{place:0>2}_*.py")
    modules = [module_of(f"{file.parent.name}.{file.stem}") for file in files]
    return any(getattr(module, "FINDS_A_BUG", False) for module in modules)


def exercises_of(chapter: str) -> dict[str, Exercise]:
    """The exercises of a chapter by their numbers; none if it has none."""
    return {number: loaded(module) for number, module in modules_of(chapter).items()}


def has_hole(function) -> bool:
    """Whether a function of a cell still has the three dots of its hole."""
    try:
        return is_hole(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):  # there is no source, or it is part of a line
        return False


_hints_shown: dict[str, int] = {}


def hint(number: str):
    """Print the next hint for an exercise; after the last one all of them stay.

    Raises  WrongInput for a number that there is not, or that has no quotes
    """
    exercise = find_exercise(number)
    number, hints = exercise.number, exercise.hints
    shown = _hints_shown[number] = min(_hints_shown.get(number, 0) + 1, len(hints))
    for step, text in enumerate(hints[:shown], 1):
        print(*wrap(text, f"{step} of {len(hints)}: "), sep="\n")


def try_on_ranks(
    case, function, *args, world_size, explain=lambda error: "", timeout=None, **more
) -> Run:
    """Run `function(*args)` on ranks that are seeded differently; raises `Wrong` if it fails.

    explain  takes a LaunchError and says which misconception it is, or ""
    timeout  seconds until it counts as hung; TIMEOUT_SECONDS if there is none
    more     of launch: replacements, machines
    """
    timeout = TIMEOUT_SECONDS if timeout is None else timeout
    settings = {"device": "cpu", "timeout": timeout, "seed": list(range(world_size)), **more}
    try:
        with patiently():
            return launched_there(function, *args, world_size=world_size, **settings)
    except HangError as error:
        why = explain(error)
        raise Wrong(case, f"it hangs: {error.beside(why)}", why) from None
    except RankError as error:
        if isinstance(error.exception, NotSolvedYet):
            raise Wrong(case, str(error.exception)) from None
        raise Wrong(case, str(error), explain(error)) from None
    except LaunchError as error:
        raise Wrong(case, str(error), explain(error)) from None

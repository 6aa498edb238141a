"""`python -m pedagogy_lib hand-in`: what a learner has written, in one zip."""

import getpass
import json
import re
import zipfile
from pathlib import Path

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.folders import COURSE
from pedagogy_lib.basics.units import format_count

from ..chapters import find_checks
from ..definitions import Program
from ..labs.holes import is_hole
from .handout_reader import HANDOUT
from .notebook_merges import program_of, read_notebook
from .working_copies import WORK

ABOUT = "HANDED_IN.json"


def hand_in(name: str | None = None, course: Path = COURSE) -> list[str]:
    """Write `hand-in-NAME.zip` into the course's folder; return sentences about its contents.

    Raises  WrongInput without a name, or if there is nothing to hand in
    """
    name = name or user_name()
    need(name, "who hands this in? Give your name: --name 'Ada Lovelace'")
    files = files_to_hand_in(course)
    need(files, f"there is nothing to hand in: {course} has neither labs nor {WORK}/")
    exercises = exercises_in(files)
    unwritten = {
        path: list_unwritten(of_file)
        for path, of_file in exercises.items()
        if list_unwritten(of_file)
    }
    about = {"student": name, "version": version_of(course), "unwritten": unwritten}
    target = course / f"hand-in-{plain_name(name)}.zip"
    unfinished = target.with_suffix(".part")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        archive.writestr(ABOUT, json.dumps(about, indent=1, ensure_ascii=False))
    unfinished.replace(target)
    return [f"{target.name}, handed in by {name}:", *describe_files(files),
            *describe_exercises(exercises, read_asked_numbers(course))]  # fmt: skip


def files_to_hand_in(course: Path) -> dict[str, bytes]:
    """Return {path: contents} of labs, of the learner's notebooks, and of the checks' results."""
    found = [*(course / "labs").glob("*.py"), *(course / WORK).glob("*.ipynb"),
             *(course / WORK).glob(".progress.json")]  # fmt: skip
    files = [path for path in sorted(found) if path.is_file()]
    return {path.relative_to(course).as_posix(): path.read_bytes() for path in files}


def version_of(course: Path) -> str:
    return read_handout(course).get("version", "")


def read_asked_numbers(course: Path) -> frozenset[str] | None:
    """Return the numbers that a handout asks for; None if there is none, or an older one."""
    asks = read_handout(course).get("asks")
    return None if asks is None else frozenset(asks)


def read_handout(course: Path) -> dict:
    about = course / HANDOUT
    return json.loads(about.read_text(encoding="utf-8")) if about.exists() else {}


def exercises_in(files) -> dict[str, dict[str, bool]]:
    """Return {file: {"2.4 reduce_tree": whether it is written}}; an unreadable lab says why."""
    found = {}
    for path, data in files.items():
        exercises = (
            read_lab_exercises(data) if path.endswith(".py") else read_notebook_exercises(data)
        )
        if exercises:
            found[path] = exercises
    return found


def list_unwritten(exercises: dict[str, bool]) -> list[str]:
    return [label for label, is_written in exercises.items() if not is_written]


def read_lab_exercises(data: bytes) -> dict[str, bool]:
    try:
        program = Program(data.decode())
    except (SyntaxError, UnicodeDecodeError) as error:
        return {f"cannot be read: {error}": False}
    with_hole = [name for name, node in program.nodes.items() if is_hole(node)]
    names = dict.fromkeys([*program.exercises, *with_hole])
    numbers = program.exercises
    return {f"{numbers.get(name, '')} {name}".strip(): name not in with_hole for name in names}


def read_notebook_exercises(data: bytes) -> dict[str, bool]:
    notebook = read_notebook(data) if data.lstrip().startswith(b"{") else None
    cells = notebook.cells if notebook is not None and "cells" in notebook else []
    nodes = {name: node for cell in cells if (program := program_of(cell))
             for name, node in program.nodes.items()}  # fmt: skip
    numbers = {name: number for cell in cells for number, name in find_checks(cell.source).items()}
    names = [name for name, node in nodes.items() if name in numbers or is_hole(node)]
    return {f"{numbers.get(name, '')} {name}".strip(): not is_hole(nodes[name]) for name in names}


def describe_files(files) -> list[str]:
    labs = sum(path.startswith("labs/") for path in files)
    notebooks = sum(path.endswith(".ipynb") for path in files)
    checks = "" if f"{WORK}/.progress.json" in files else ", no"
    return [f"  {labs} labs, {notebooks} notebooks{checks or ', and the'} results of your checks"]


def describe_exercises(exercises, asked=None) -> list[str]:
    """Describe what is written, and what is not in the files in which something is.

    asked  the numbers that the handout asks for; holes of other parts are only counted
    """
    written, left, others, waiting = [], [], 0, 0
    for path, of_file in exercises.items():
        done = [label for label, is_written in of_file.items() if is_written]
        holes = [label for label in list_unwritten(of_file) if is_asked(label, asked)]
        waiting += len(list_unwritten(of_file)) - len(holes)
        written += [f"    {path}: {', '.join(done)}"] * bool(done)
        if done or any(label.startswith("cannot be read") for label in holes):
            left += [f"    {path}: {', '.join(holes)}"] * bool(holes)
        else:
            others += len(holes)
    more = [f"    {others} in {'other ' if written else ''}files that you have not begun"]
    left += more * bool(others)
    told = [*(["  Written:", *written] if written else ["  Nothing is written yet."]),
            *(["  Still unwritten:", *left] if left else ["  Everything is written."])]  # fmt: skip
    return told + [f"  {format_count(waiting, 'hole')} of other parts can wait."] * bool(waiting)


def is_asked(label, asked) -> bool:
    """Return whether a label is asked for; without a number, as for an unreadable file, it is."""
    number = re.match(r"\d+\.\d+", label)
    return asked is None or number is None or number[0] in asked


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without an entry in the system
        return ""


def plain_name(name: str) -> str:
    """Return a name for use in a file's name: letters, digits and hyphens."""
    return re.sub(r"[^\w]+", "-", name).strip("-") or "student"

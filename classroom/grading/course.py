"""The exercises, notebooks and labs of the course, read from the files that learners get."""

import ast
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from coursekit.chapters import find_checks
from coursekit.check_runner import find_exercise
from coursekit.labs.holes import numbers_in
from coursekit.labs.snapshot import find_imports
from pedagogy_lib.basics.errors import need

from .programs import Program, read_program

ROOT = Path(__file__).resolve().parents[2]
STEM = re.compile(r"(\d\d[a-z]?_\w+?)(?:-new)?(?:-\d+)?(?: ?\(\d+\))?(?: ?- ?[Cc]opy)?\d*")


@dataclass(frozen=True)
class ExerciseInfo:
    """One exercise of this grading; `part` is the stem of the notebook that asks it."""

    number: str
    name: str
    lab: str | None
    part: str
    title: str
    points: float = 1.0

    def dump_fields(self) -> dict:
        return dict(vars(self))


def list_exercises(chapters=(), exercises=()) -> list[ExerciseInfo]:
    """Return the exercises of these chapters or parts, and those with these numbers.

    Raises  WrongInput for those that do not exist, and for parts without exercises
    """
    found = [find_exercise(number) for number in exercises]
    for name in chapters:
        found += map(find_exercise, exercises_in(str(name)))
    unique = {one.number: one for one in found}
    return [describe_exercise(unique[number]) for number in sorted(unique, key=parse_number)]


def exercises_in(name: str) -> set[str]:
    """Return the numbers of the exercises of a chapter or a part."""
    from classroom.handout.contents import numbers_of  # takes seconds to import, as below

    found = numbers_of(name)
    need(found, f"{name} has no exercises: name another chapter, such as 02, or a part, 02b")
    return found


def parse_number(number: str) -> tuple[int, ...]:
    return tuple(map(int, number.split(".")))


def describe_exercise(exercise) -> ExerciseInfo:
    part, title = find_heading(exercise.number)
    return ExerciseInfo(exercise.number, exercise.name, exercise.lab, part, title)


def find_heading(number) -> tuple[str, str]:
    """Return the stem of the notebook that asks an exercise, and the exercise's heading."""
    heading = re.compile(rf'### (Exercise {re.escape(number)}\b(?!\.)[^"\\]*)')
    for path in notebooks(f"{int(number.split('.')[0]):02}"):
        if found := heading.search(text_of(path)):
            return path.stem, found[1]
    return "", f"Exercise {number}"


def notebooks(chapter="") -> list[Path]:
    return sorted((ROOT / "notebooks").glob(f"{chapter}*.ipynb"))


@cache
def text_of(path) -> str:
    return path.read_text()


@cache
def part(stem: str) -> Program:
    """Read a notebook as learners get it."""
    path = ROOT / "notebooks" / f"{stem}.ipynb"
    return read_program(path.name, path.read_bytes()) if path.exists() else Program(stem)


@cache
def lab(name: str) -> Program:
    """Read a lab as learners get it."""
    return read_program(f"labs/{name}.py", (ROOT / "labs" / f"{name}.py").read_bytes())


@cache
def definitions_in_lab(name: str, function: str) -> tuple[ast.AST, ...]:
    """Return a function's definitions in the whole course's lab, and in that of a handout."""
    if name not in lab_names():
        return ()
    from classroom.handout.handout_labs import lab_text  # takes seconds to import, as below

    handed_out = read_program(f"labs/{name}.py", lab_text(name).encode())
    statements = [*lab(name).statements, *handed_out.statements]
    return tuple(s.node for s in statements if getattr(s.node, "name", "") == function)


@cache
def imports_of_lab(name: str) -> frozenset[str]:
    """Return the modules that a lab imports, at its start or in a function."""
    nodes = [statement.node for statement in lab(name).statements]
    return frozenset(find_imports(ast.Module(nodes, [])))


@cache
def read_solution(stem: str) -> Program:
    """Return a lab or a part with the course's own answers, by its name: `zero`, `06_zero`."""
    from coursekit.building import build  # takes seconds to import, and most students need none

    source = build.source_of(stem)
    name = source.relative_to(ROOT).as_posix()
    return read_program(name, build.keep_answers(build.text_of(source)).encode())


@cache
def lab_names() -> frozenset[str]:
    return frozenset(path.stem for path in (ROOT / "labs").glob("*.py"))


@cache
def numbers_of_lab(name: str) -> dict[str, str]:
    """Return {function or class: number of its exercise}."""
    nodes = [statement.node for statement in lab(name).statements]
    return numbers_in(ast.Module(nodes, []))


@cache
def numbers_at(stem: str) -> dict[str, str]:
    """Return {name: number} of the exercises that belong to a notebook, or a lab, of this stem."""
    if stem in lab_names():
        return numbers_of_lab(stem)
    path = ROOT / "notebooks" / f"{stem}.ipynb"
    checks = find_checks(text_of(path)) if path.exists() else {}
    return {function: number for number, function in checks.items() if function}


def stem_of(path: str) -> str:
    """Return the stem of the notebook or lab that a file copies, by its name; else its own stem."""
    stem = re.sub(r"\.mine-\d+$", "", Path(path).stem)
    if found := STEM.fullmatch(stem):
        return found[1]
    plain = re.sub(r"(-\d+| ?\(\d+\)| - [Cc]opy|-[Cc]opy\d*)$", "", stem)
    return plain if plain in lab_names() else stem


@cache
def version(root: Path = ROOT) -> str:
    """Return a digest of everything in the course that a verdict depends on."""
    digest = hashlib.sha256(torch.__version__.encode())
    for folder, pattern in SOURCES:
        for path in sorted((root / folder).glob(pattern)):
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


SOURCES = (
    ("pedagogy_lib", "**/*.py"),
    ("coursekit", "**/*.py"),
    ("classroom/grading", "**/*.py"),
    ("classroom/sandbox", "**/*.py"),
    ("classroom/handout", "**/*.py"),
    ("labs", "*.py"),
    ("notebooks", "*.ipynb"),
    ("chapters", "**/*.toml"),
    ("chapters", "**/*.py"),  # may be used as answers; decide what counts for nothing
)

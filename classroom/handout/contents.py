"""The contents of a handout of some chapters: parts, the labs that they need, their exercises."""

import ast
import re
from dataclasses import dataclass

from coursekit.building.build import insert_holes, lab_sources, sources, text_of
from coursekit.building.record_inputs import modules_behind
from coursekit.chapters import exercise_folders, find_checks
from coursekit.check_runner import exercise_named, find_exercise
from coursekit.labs.holes import numbers_in
from coursekit.labs.snapshot import find_imports
from pedagogy_lib.basics.errors import need

from .handout_labs import lab_text
from .prerequisites import find_prerequisites

OF_A_LAB = re.compile(r"""\blab\(\s*f?["'](\w+)|\blab=["'](\w+)|labs/(\w+)\.py|["'](\w+)\.py["']""")


@dataclass(frozen=True)
class Contents:
    """The contents of a handout.

    parts, labs  names without endings
    exercises    numbers, in the course's order
    own          the numbers of those that the parts ask
    first        the numbers of those that come before them
    names        of chapters, or of parts
    is_whole     whether these are all chapters
    """

    parts: tuple[str, ...]
    labs: tuple[str, ...]
    exercises: tuple[str, ...]
    own: frozenset[str]
    first: tuple[str, ...]
    names: tuple[str, ...]
    is_whole: bool


def contents_of(names=()) -> Contents:
    """Return the contents of all chapters, or of some ("02", "6"), or of parts ("02b").

    "02a" is the first part of chapter 02.
    Raises  WrongInput for a chapter or a part that does not exist
    """
    every = {path.stem: path for path in sources()}
    known = chapters_in(every)
    parts = tuple(parts_of(names, every))
    texts = [insert_holes(text_of(every[stem])) for stem in parts]
    complete = [one for one in known if {s for s in every if s[:2] == one} <= set(parts)]
    own = find_exercise_numbers(texts, complete)
    exercises, labs = add_dependencies(own, find_lab_names(texts))
    if complete == known:  # everything, also labs that no part names
        labs = {path.stem for path in lab_sources()}
    in_order = [number for number in exercise_folders() if number in exercises]
    called = tuple(sorted(map(code_of, parts)) if len(names) and not set(names) <= set(known)
                   else complete)  # fmt: skip
    first = find_prerequisites(own, texts, labs, needs_of)
    about = frozenset(own), first, called, complete == known
    return Contents(parts, tuple(sorted(labs)), tuple(in_order), *about)


def numbers_of(name: str) -> set[str]:
    """Return the numbers of the exercises that a chapter or a part asks: "02", "2" or "02b".

    Raises  WrongInput for a chapter or a part that does not exist
    """
    every = {path.stem: path for path in sources()}
    parts = parts_of([name], every)
    texts = [insert_holes(text_of(every[stem])) for stem in parts]
    return find_exercise_numbers(texts, [name] if name.isdigit() else [])


def chapters_in(stems) -> list[str]:
    return sorted({stem[:2] for stem in stems})


def parts_of(names, every) -> list[str]:
    """Return the stems of the named chapters and parts, in the course's order; by default all."""
    known = chapters_in(every)
    found = [parts_named(str(name), every) for name in names or known]
    for name, there in zip(names, found):
        need(there, f"there is no chapter or part {name}; chapters are: {' '.join(known)}")
    return [stem for stem in every if any(stem in there for there in found)]


def find_exercise_numbers(texts, chapters) -> set[str]:
    """Return the numbers that these parts check, and those of all exercises of these chapters."""
    checked = {number for text in texts for number in find_checks(text)}
    whole = {str(int(one)) for one in chapters}
    return checked | {number for number in exercise_folders() if number.split(".")[0] in whole}


def parts_named(name, every) -> list[str]:
    """Return the stems of a chapter's parts, or of one part."""
    if name.isdigit():
        return [stem for stem in every if stem[:2] == name.zfill(2)]
    return [stem for stem in every if code_of(stem) == name.zfill(3)]


def code_of(stem) -> str:
    """Return a part's code, such as `02b`, or `02a` for a chapter's first part."""
    code = stem.split("_")[0]
    return code if len(code) > 2 else f"{code}a"


def add_dependencies(exercises, labs) -> tuple[set[str], set[str]]:
    """Add the exercises and labs that these are built on, and so on.

    In a handout no exercise is solved, so whoever uses a lab has to write it, and to check that.
    """
    known, exercises, labs = exercise_folders(), set(exercises), set(labs)
    while True:
        sizes = len(exercises), len(labs)
        for name in sorted(labs):
            text = lab_text(name)
            tree = ast.parse(text)
            exercises |= {number for number in numbers_in(tree).values() if number in known}
            labs |= find_imports(tree) & all_labs() | find_lab_names([text])
        for number in sorted(exercises):
            labs |= find_lab_names([source_of(number)])
            exercises |= needs_of(number)
        if sizes == (len(exercises), len(labs)):
            return exercises, labs


def needs_of(number: str) -> set[str]:
    """Return the exercises that one is built on, as its check says."""
    return {exercise_named(name).number for name in getattr(find_exercise(number), "needs", ())}


def source_of(number: str) -> str:
    """Return the text of a check, and of the modules of checks that it imports."""
    paths = modules_behind(exercise_folders()[number] / "check.py")
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(paths))


def all_labs() -> set[str]:
    return {path.stem for path in lab_sources()}


def find_lab_names(texts) -> set[str]:
    """Return the labs that texts name as labs: as an argument of `lab`, or as a file."""
    found = {name for text in texts for names in OF_A_LAB.findall(text) for name in names}
    return found & all_labs()

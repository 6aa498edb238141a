"""What belongs into a handout of some chapters: parts, the labs that they need, their exercises."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from pedagogy_lib.basics.errors import need
from pedagogy_lib.course.build import lab_sources, sources, with_holes
from pedagogy_lib.course.checking import EXERCISES, modules_of
from pedagogy_lib.course.lab_files import imported_by
from pedagogy_lib.course.lab_holes import numbers_in

from .held_back import lab_text
from .needed import needed_first

OF_A_LAB = re.compile(r"""\blab\(\s*f?["'](\w+)|\blab=["'](\w+)|labs/(\w+)\.py|["'](\w+)\.py["']""")
NEEDS = re.compile(r"needs=\(([^)]*)\)")
NUMBER = re.compile(r"\d+\.\d+")
FROM_CHAPTER = re.compile(r"from (?:\.\.(ch\d\d)|)\.?(\w+) import")
CHECKED = re.compile(r"""\bcheck\(["'](\d+\.\d+)""")


@dataclass(frozen=True)
class Contents:
    """parts, labs  names without endings;  exercises  modules, such as "ch02.ex09_sent_bytes";
    own  the numbers of those that the parts ask;  first  of those that come before them;
    names  of chapters, or of parts;  is_whole  whether these are all chapters"""

    parts: tuple[str, ...]
    labs: tuple[str, ...]
    exercises: tuple[str, ...]
    own: frozenset[str]
    first: tuple[str, ...]
    names: tuple[str, ...]
    is_whole: bool


def contents_of(names=()) -> Contents:
    """Of all chapters, or of these: "02", "6"; or of parts: "02a", the first one of 02, "02b".

    Raises  WrongInput for a chapter, or a part, that there is not
    """
    every = {path.stem: path for path in sources()}
    known = chapters_in(every)
    parts = tuple(parts_of(names, every))
    texts = [with_holes(every[stem].read_text(encoding="utf-8")) for stem in parts]
    complete = [one for one in known if {s for s in every if s[:2] == one} <= set(parts)]
    own = asked_in(texts, complete)
    exercises, labs = with_what_they_need(own, mentioned(texts))
    if complete == known:  # all there is, also labs that no part names
        labs = {path.stem for path in lab_sources()}
    modules = modules_of()
    in_order = [module for number, module in modules.items() if number in exercises]
    called = tuple(sorted(map(code_of, parts)) if len(names) and not set(names) <= set(known)
                   else complete)  # fmt: skip
    first = needed_first(own, texts, labs, needs_of)
    about = frozenset(own), first, called, complete == known
    return Contents(parts, tuple(sorted(labs)), tuple(in_order), *about)


def numbers_of(name: str) -> set[str]:
    """Of the exercises that a chapter, or a part, asks; "02", "2" or "02b".

    Raises  WrongInput for a chapter, or a part, that there is not
    """
    every = {path.stem: path for path in sources()}
    parts = parts_of([name], every)
    texts = [with_holes(every[stem].read_text(encoding="utf-8")) for stem in parts]
    return asked_in(texts, [name] if name.isdigit() else [])


def chapters_in(stems) -> list[str]:
    return sorted({stem[:2] for stem in stems})


def parts_of(names, every) -> list[str]:
    """The stems of chapters and parts by name, in the course's order; all if nothing is named."""
    known = chapters_in(every)
    found = [parts_named(str(name), every) for name in names or known]
    for name, there in zip(names, found):
        need(there, f"there is no chapter or part {name}; chapters are: {' '.join(known)}")
    return [stem for stem in every if any(stem in there for there in found)]


def asked_in(texts, chapters) -> set[str]:
    """The numbers of what these parts check, and of all exercises of these whole chapters."""
    checked = {number for text in texts for number in CHECKED.findall(text)}
    return checked | {number for one in chapters for number in modules_of(str(int(one)))}


def parts_named(name, every) -> list[str]:
    """The stems of a chapter's parts, or of one part."""
    if name.isdigit():
        return [stem for stem in every if stem[:2] == name.zfill(2)]
    return [stem for stem in every if code_of(stem) == name.zfill(3)]


def code_of(stem) -> str:
    """`02b`; of a chapter's first part, `02a`."""
    code = stem.split("_")[0]
    return code if len(code) > 2 else f"{code}a"


def with_what_they_need(exercises, labs) -> tuple[set[str], set[str]]:
    """And the exercises and labs that these are built on, and so on.

    In a handout nobody has written anything: whoever uses a lab has to write it, and check that.
    """
    modules, exercises, labs = modules_of(), set(exercises), set(labs)
    while True:
        sizes = len(exercises), len(labs)
        for name in sorted(labs):
            text = lab_text(name)
            tree = ast.parse(text)
            exercises |= {number for number in numbers_in(tree).values() if number in modules}
            labs |= imported_by(tree) & all_labs() | mentioned([text])
        for number in sorted(exercises):
            labs |= mentioned([source_of(modules[number])])
            exercises |= needs_of(number)
        if sizes == (len(exercises), len(labs)):
            return exercises, labs


def needs_of(number: str) -> set[str]:
    """The exercises that one is built on, as its check says."""
    found = NEEDS.findall(source_of(modules_of()[number]))
    return {needed for numbers in found for needed in NUMBER.findall(numbers)}


def source_of(module) -> str:
    """The text of a check, and of the modules of checks that it imports."""
    todo, texts = [module], {}
    while todo:
        name = todo.pop()
        path = EXERCISES / Path(*name.split(".")).with_suffix(".py")
        if name not in texts and path.exists():
            texts[name] = path.read_text(encoding="utf-8")
            chapter = name.split(".")[0]
            for other, imported in FROM_CHAPTER.findall(texts[name]):
                todo.append(f"{other or chapter}.{imported}")
    return "\n".join(texts.values())


def all_labs() -> set[str]:
    return {path.stem for path in lab_sources()}


def mentioned(texts) -> set[str]:
    """The labs that texts name as labs: as an argument of `lab`, or as a file."""
    found = {name for text in texts for names in OF_A_LAB.findall(text) for name in names}
    return found & all_labs()

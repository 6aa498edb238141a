"""The outline of the course as its notebooks give it: titles, minutes, and exercises."""

import json
import re
from pathlib import Path
from typing import NamedTuple

from pedagogy_lib.basics.errors import WrongInput, need_course
from pedagogy_lib.basics.folders import COURSE, short_path

from .chapters import find_checks

TITLE = re.compile(r"# \S+ · (.+)")
HEADING = re.compile(r"^### Exercise (\d+\.\d+) · (.+)$", re.MULTILINE)
MINUTES = re.compile(r"It takes\*\*\s+about\s+(\d+)\s+minutes(?:,\s+and\s+(\d+)\s+more)?")


class NotebookPart(NamedTuple):
    """One notebook of the course.

    name       "03c"
    exercises  {number: title}, in the order in which they are checked
    reading    minutes to read and run it; `writing` is the minutes for all exercises
    """

    name: str
    title: str
    path: Path
    exercises: dict[str, str]
    reading: int
    writing: int

    @property
    def chapter(self) -> str:
        return self.name[:2]

    def __str__(self):
        return f"{self.name} · {self.title}"


def notebooks() -> dict[str, Path]:
    """Return {"03c": its notebook}, in the order of the course; a handout has only some."""
    need_course(COURSE / "notebooks")
    return {p.name.split("_")[0]: p for p in sorted((COURSE / "notebooks").glob("*.ipynb"))}


def outline() -> list[NotebookPart]:
    """Return all parts that exist here.

    Raises  WrongInput if a file is not a notebook
    """
    return [part_of(name, path) for name, path in notebooks().items()]


def part_of(name: str, path: Path) -> NotebookPart:
    text = text_of(path)
    title, takes = TITLE.search(text), MINUTES.search(text)
    titles = {number: title.replace("`", "") for number, title in HEADING.findall(text)}
    reading, writing = takes.groups() if takes else (0, 0)
    exercises = {number: titles.get(number, "") for number in find_checks(text)}
    return NotebookPart(name, title[1] if title else path.stem, path, exercises,
                int(reading), int(writing or 0))  # fmt: skip


def text_of(path: Path) -> str:
    """Return the text of all cells, one after the other."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return "\n\n".join("".join(cell["source"]) for cell in cells)
    except (ValueError, KeyError, TypeError) as error:
        told = f"{short_path(str(path))} cannot be read as a notebook ({type(error).__name__})"
        raise WrongInput(told) from None

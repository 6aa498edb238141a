"""`python -m pedagogy_lib hand-in`: what a learner has written, in one zip."""

import getpass
import json
import re
import zipfile
from pathlib import Path

from ..basics.errors import need
from ..basics.places import COURSE
from .build import HOLE
from .definitions import Program
from .handed_out import HANDOUT
from .lab_holes import is_hole
from .notebook_merges import program_of, read_notebook
from .working_copies import WORK

ABOUT = "HANDED_IN.json"
CHECK = re.compile(r"""\bcheck\(\s*["'](\d+\.\d+)["']\s*,\s*(\w+)""")
HOLE_TEXT = HOLE.format(indent="").strip()


def hand_in(name: str | None = None, course: Path = COURSE) -> list[str]:
    """Write `hand-in-NAME.zip` into the course's folder; returns what is in it, in sentences.

    Raises  WrongInput without a name, or if there is nothing to hand in
    """
    name = name or user_name()
    need(name, "who hands this in? Give your name: --name 'Ada Lovelace'")
    files = files_to_hand_in(course)
    need(files, f"there is nothing to hand in: {course} has neither labs nor {WORK}/")
    unwritten = unwritten_in(files)
    about = {"student": name, "version": version_of(course), "unwritten": unwritten}
    target = course / f"hand-in-{plain_name(name)}.zip"
    unfinished = target.with_suffix(".part")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        archive.writestr(ABOUT, json.dumps(about, indent=1, ensure_ascii=False))
    unfinished.replace(target)
    return [f"{target.name}, handed in by {name}:", *told_of(files), *told_unwritten(unwritten)]


def files_to_hand_in(course: Path) -> dict[str, bytes]:
    """{path: contents} of labs, of the learner's notebooks, and of what checks have found."""
    found = [*(course / "labs").glob("*.py"), *(course / WORK).glob("*.ipynb"),
             *(course / WORK).glob(".progress.json")]  # fmt: skip
    files = [path for path in sorted(found) if path.is_file()]
    return {path.relative_to(course).as_posix(): path.read_bytes() for path in files}


def version_of(course: Path) -> str:
    about = course / HANDOUT
    return json.loads(about.read_text(encoding="utf-8"))["version"] if about.exists() else ""


def unwritten_in(files) -> dict[str, list[str]]:
    """{file: its exercises that still have a hole}."""
    found = {}
    for path, data in files.items():
        holes = holes_of_lab(data) if path.endswith(".py") else holes_of_notebook(data)
        if holes:
            found[path] = holes
    return found


def holes_of_lab(data: bytes) -> list[str]:
    try:
        program = Program(data.decode())
    except (SyntaxError, UnicodeDecodeError) as error:
        return [f"cannot be read: {error}"]
    left = [name for name, node in program.nodes.items() if is_hole(node)]
    return [f"{program.exercises.get(name, '')} {name}".strip() for name in left]


def holes_of_notebook(data: bytes) -> list[str]:
    notebook = read_notebook(data) if data.lstrip().startswith(b"{") else None
    cells = notebook.cells if notebook is not None and "cells" in notebook else []
    programs = [program for cell in cells if (program := program_of(cell))]
    numbers = {name: number for cell in cells for number, name in CHECK.findall(cell.source)}
    left = [n for program in programs for n, node in program.nodes.items() if is_hole(node)]
    return [f"{numbers.get(name, '')} {name}".strip() for name in left]


def told_of(files) -> list[str]:
    labs = sum(path.startswith("labs/") for path in files)
    notebooks = sum(path.endswith(".ipynb") for path in files)
    checks = "" if f"{WORK}/.progress.json" in files else ", no"
    return [f"  {labs} labs, {notebooks} notebooks{checks or ', and the'} results of your checks"]


def told_unwritten(unwritten) -> list[str]:
    if not unwritten:
        return ["  Everything is written."]
    return ["  Still unwritten:", *(f"    {path}: {', '.join(holes)}"
                                    for path, holes in unwritten.items())]  # fmt: skip


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without an entry in the system
        return ""


def plain_name(name: str) -> str:
    """As part of a file's name: letters, digits and hyphens."""
    return re.sub(r"[^\w]+", "-", name).strip("-") or "student"

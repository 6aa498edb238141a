"""A chapter or a part as an assignment of nbgrader, made of the handout's files, without answers.

The notebooks are at the top, as nbgrader wants them, and their labs in `labs/` next to them.
"""

import sys
from pathlib import Path

import nbformat

from classroom.handout.contents import Contents, contents_of
from classroom.handout.files import COVERS, lab_files
from classroom.handout.notebooks import notebook_of
from coursekit.building.build import ROOT, dump
from coursekit.check_runner import find_exercise
from pedagogy_lib.basics.errors import WrongInput, need

from .cells import add_grade_cells

CONFIG = "nbgrader_config.py"
SETTINGS = '''\
"""nbgrader's settings for the course on distributed training. Yours to change."""

import sys
from pathlib import Path

COURSE = {course!r}  # with its solutions
sys.path.append(COURSE)

from classroom.lms.nbgrader_settings import settle  # noqa: E402

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "distributed-training"
c.CourseDirectory.root = str(Path(__file__).resolve().parent)
# Settings of nbgrader's folders come before this line.
settle(c, COURSE, python={python!r})
# Chapters whose solutions stand in where a student has not written what an exercise builds on:
# c.Judged.given = "02"
'''


def write_course(chapters, folder: Path):
    """Write `source/` and nbgrader's settings into nbgrader's folder; yield what was done.

    Raises  WrongInput if an assignment exists already, because a teacher may have worked in it
    """
    need(chapters, 'say which chapters become assignments: CHAPTERS="02 06", or --chapters "02 06"')
    assignments = {name_of(chapter): files_of(chapter) for chapter in chapters}
    for name in assignments:
        if (folder / "source" / name).exists():
            raise WrongInput(f"{folder / 'source' / name} is there already: move it away first")
    for name, files in assignments.items():
        for path, content in files.items():
            put(folder / "source" / name / path, content)
        yield f"wrote {folder / 'source' / name}"
    if not (folder / CONFIG).exists():
        text = SETTINGS.format(course=str(ROOT), python=sys.executable)
        put(folder / CONFIG, text.encode())
        yield f"wrote {folder / CONFIG}"
    yield f"next, in {folder}: nbgrader generate_assignment {next(iter(assignments))}"


def name_of(chapter) -> str:
    """Return an assignment's name, its first part's; raise WrongInput for no chapter or part."""
    return contents_of([chapter]).parts[0]


def files_of(chapter) -> dict[str, bytes]:
    """Return the files of an assignment, by their paths in its folder."""
    contents = contents_of([chapter])
    files = lab_files(contents) | covers(contents)
    paths = {*files, *(f"notebooks/{part}.ipynb" for part in contents.parts)}
    exercises = {number: find_exercise(number) for number in contents.own}
    return files | {
        f"{part}.ipynb": build_assignment(notebook_of(part, paths), exercises)
        for part in contents.parts
    }


def covers(contents: Contents) -> dict[str, bytes]:
    paths = [ROOT / COVERS / f"{part}.png" for part in contents.parts]
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths if path.exists()}


def build_assignment(notebook: bytes, exercises) -> bytes:
    found = nbformat.reads(notebook.decode(), as_version=4)
    found.cells = add_grade_cells(found.cells, exercises)
    for cell in found.cells:
        if cell.cell_type == "markdown":  # files next to notebooks/ are now in the folder
            cell.source = cell.source.replace("](../", "](")
    return dump(found).encode()


def put(path: Path, content: bytes):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)

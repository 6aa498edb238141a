"""nbgrader's settings for assignments of this course, as `settle` makes them in nbgrader's Python.

nbgrader runs a list of steps over each notebook, and lets a course choose the list. The step of
`autograde` that executes the notebook is left out, because `Judged` asks the course instead.
"""

from glob import glob
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearOutput,
    ClearSolutions,
    OverwriteCells,
    OverwriteKernelspec,
)

from .nbgrader_restored import RestoreMetadata
from .nbgrader_steps import AutogradeExporter, ClearMarkedSolutions, Judged, SaveVerdicts


def settle(settings, course: str, python: str):
    """Change traitlets' settings, after CourseDirectory's have been made.

    course  the course's folder, with its solutions
    python  the course's own Python, which need not be nbgrader's
    """
    folders = CourseDirectory(config=settings)
    settings.Autograde.exclude_overwriting = labs_in(folders)
    settings.Autograde.pre_convert_hook = lambda **about: add_absent(folders.db_url, **about)
    settings.Judged.course, settings.Judged.python = course, python
    settings.Autograde.exporter_class = AutogradeExporter
    settings.Autograde.sanitize_preprocessors = [
        RestoreMetadata, ClearOutput, OverwriteKernelspec, OverwriteCells, CheckCellMetadata,
    ]  # fmt: skip
    settings.Autograde.autograde_preprocessors = [
        Judged, SaveVerdicts, AssignLatePenalties, CheckCellMetadata,
    ]  # fmt: skip
    steps = GenerateAssignment.class_traits()["preprocessors"].default()
    settings.GenerateAssignment.preprocessors = [
        ClearMarkedSolutions if step is ClearSolutions else step for step in steps
    ]


def labs_in(folders: CourseDirectory) -> dict[str, list[str]]:
    """Return {assignment: its labs}, with which nbgrader would overwrite a student's labs."""
    sources = glob(folders.format_path(folders.source_directory, ".", "*"))
    return {
        source.name: [path.relative_to(source).as_posix() for path in source.glob("labs/*.py")]
        for source in map(Path, sources)
    }


def add_absent(db_url, assignment, student, notebooks: list):
    """Let nbgrader take missing notebooks, too, because answers may be in other files.

    notebooks  of one submission, which nbgrader goes through next
    """
    folder = Path(notebooks[0]).parent
    with Gradebook(db_url) as book:
        names = [f"{one.name}.ipynb" for one in book.find_assignment(assignment).notebooks]
    handed_in = {Path(path).name for path in notebooks}
    notebooks += [str(folder / name) for name in names if name not in handed_in]

"""`settle`: nbgrader's settings for assignments of this course. Runs in nbgrader's Python.

nbgrader runs a list of steps over each notebook, and lets a course name them. Of `autograde`, the
step that executes the notebook is left out: `Judged` asks the course instead.
"""

from pathlib import Path

from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearOutput,
    ClearSolutions,
    OverwriteCells,
    OverwriteKernelspec,
)

from .nbgrader_restored import Readable, Restored
from .nbgrader_steps import ClearMarkedSolutions, Judged, SaveVerdicts


def settle(settings, course: str, python: str):
    """Change traitlets' settings.

    course  the course's folder, with its solutions
    python  the course's own, which need not be nbgrader's
    """
    settings.Autograde.exclude_overwriting = labs_in(Path(settings.CourseDirectory.root, "source"))
    settings.Judged.course, settings.Judged.python = course, python
    settings.Autograde.exporter_class = Readable
    settings.Autograde.sanitize_preprocessors = [
        Restored, ClearOutput, OverwriteKernelspec, OverwriteCells, CheckCellMetadata,
    ]  # fmt: skip
    settings.Autograde.autograde_preprocessors = [
        Judged, SaveVerdicts, AssignLatePenalties, CheckCellMetadata,
    ]  # fmt: skip
    steps = GenerateAssignment.class_traits()["preprocessors"].default()
    settings.GenerateAssignment.preprocessors = [
        ClearMarkedSolutions if step is ClearSolutions else step for step in steps
    ]


def labs_in(source: Path) -> dict[str, list[str]]:
    """{assignment: its labs}: nbgrader would put its own in the place of a student's."""
    return {
        folder.name: [path.relative_to(folder).as_posix() for path in folder.glob("labs/*.py")]
        for folder in source.glob("*")
    }

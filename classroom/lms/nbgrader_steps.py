"""The second half of nbgrader's `autograde`: scores and verdicts, in nbgrader's Python.

Nothing of the notebook is executed. The course's Python finds the answers in all that was handed
in, and runs them in a sandbox; the scores come from there.
"""

import sys
from pathlib import Path

from nbformat.v4 import new_output
from nbgrader.api import Gradebook
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor, SaveAutoGrades
from nbgrader.utils import is_grade
from traitlets import Bool, Unicode

from .cells import number_of
from .nbgrader_asking import ask_course, begin
from .nbgrader_restored import Readable


class ClearMarkedSolutions(ClearSolutions):
    """A step of `generate_assignment` that keeps cells with holes, which nbgrader would empty."""

    def preprocess_cell(self, cell, resources, cell_index):
        self._replace_solution_region(cell, resources["language"])
        return cell, resources


class Judged(NbGraderPreprocessor):
    """A step that puts the score, as partial credit, and the diagnosis into each tests cell."""

    course = Unicode(help="the course's folder, with its solutions").tag(config=True)
    python = Unicode(sys.executable, help="the course's Python").tag(config=True)
    given = Unicode("", help="exercises or chapters whose solutions stand in").tag(config=True)
    trust = Bool(False, help="run students' code without walls").tag(config=True)

    def preprocess(self, nb, resources):
        about = resources["nbgrader"]
        folders = self.parent.parent.coursedir
        submission = folders.format_path(
            folders.submitted_directory, about["student"], about["assignment"]
        )
        found = ask_course(self.python, self.course, self.log, {
            "submission": str(Path(submission).resolve()), "student": about["student"],
            "exercises": self.exercises(about), **self.wishes(),
            "out": str(Path(folders.root, "grades", about["assignment"])),
        })  # fmt: skip
        for cell in filter(is_grade, nb.cells):
            answer = found["answers"].get(number_of(cell.metadata.nbgrader.grade_id))
            if answer is not None:
                points = answer["score"] * cell.metadata.nbgrader.points
                data = {"text/plain": f"{points:.4g}", "text/html": answer["html"]}
                cell.outputs = [new_output("execute_result", data=data)]
        resources["answers"] = found["answers"]
        return nb, resources

    def wishes(self) -> dict:
        return {"given": self.given, "way": "trust" if self.trust else None}

    def exercises(self, about) -> list[dict]:
        """Return all exercises of the assignment."""
        with Gradebook(about["db_url"]) as book:
            notebooks = book.find_assignment(about["assignment"]).notebooks
            names = [cell.name for one in notebooks for cell in one.grade_cells]
        return [{"number": number} for name in names if (number := number_of(name))]


class AutogradeExporter(Readable):
    """The exporter of `autograde`, of which nbgrader makes one before all students.

    Raises  NbGraderException if the course can judge nobody; from a step, it would come with a
            traceback for each student
    """

    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        judged = Judged(parent=self)
        try:
            begin(judged.python, judged.course, judged.wishes())
        except (OSError, RuntimeError) as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from None


class SaveVerdicts(SaveAutoGrades):
    """A step that saves scores, and leaves to the formgrader what a person has to decide."""

    def preprocess(self, nb, resources):
        nb, resources = super().preprocess(nb, resources)
        with Gradebook(self.db_url) as book:
            for notebook in book.find_assignment(self.assignment_id).notebooks:
                if notebook.name == self.notebook_id:
                    self.save_open(book, notebook, resources["answers"])
        return nb, resources

    def save_open(self, book, notebook, answers):
        """Leave open also the tests that a teacher has added, because nothing has run them."""
        by_hand = {cell.name for cell in notebook.solution_cells}
        for cell in notebook.grade_cells:
            answer = answers.get(number_of(cell.name), {"is_open": cell.name not in by_hand})
            if answer["is_open"]:
                grade = book.find_grade(
                    cell.name, notebook.name, self.assignment_id, self.student_id
                )
                grade.auto_score, grade.needs_manual_grade = None, True
        book.db.commit()

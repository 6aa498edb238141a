"""Steps of nbgrader's `autograde` and `generate_assignment`. They run in nbgrader's Python.

No code of a student runs here. What a student may have changed in nbgrader's own marks is replaced
by what nbgrader's database knows; scores come from the course's Python, which runs the answers
behind walls.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor, SaveAutoGrades
from nbgrader.utils import is_grade
from traitlets import Bool, Unicode

OURS = re.compile(r"exercise-(\d+)-(\d+)")
UNREADABLE = "*What was handed in under this name cannot be read as a notebook.*"
SCHEMA = 3


def course_folder(step):
    """nbgrader's own notion of where its folders are."""
    return step.parent.parent.coursedir


def number_of(grade_id) -> str | None:
    """`2.8` of `exercise-2-8`; None of a cell that a teacher has added."""
    found = OURS.fullmatch(grade_id)
    return f"{found[1]}.{found[2]}" if found else None


class ClearMarkedSolutions(ClearSolutions):
    """Keeps an answer's cell that has its hole already; nbgrader would empty it."""

    def preprocess_cell(self, cell, resources, cell_index):
        self._replace_solution_region(cell, resources["language"])
        return cell, resources


class Readable(NotebookExporter):
    """Takes a file that is no notebook for an empty one: the other files still count."""

    def from_file(self, file_stream, resources=None, **more):
        try:
            notebook = nbformat.read(file_stream, as_version=4)
            nbformat.validate(notebook)
        except Exception:  # a student's file makes nbformat raise anything
            notebook = new_notebook(cells=[new_markdown_cell(UNREADABLE)])
        return self.from_notebook_node(notebook, resources=resources, **more)


class Restored(NbGraderPreprocessor):
    """Gives each cell the marks that nbgrader's database has for it, and to others none."""

    def preprocess(self, nb, resources):
        known = resources["nbgrader"]
        with Gradebook(known["db_url"]) as book:
            given = given_cells(book.find_notebook(known["notebook"], known["assignment"]))
        seen = set()
        for place in reversed(range(len(nb.cells))):
            marks = nb.cells[place].metadata.pop("nbgrader", None)
            name = marks.get("grade_id") if isinstance(marks, dict) else None
            if type(name) is str and name in given and name not in seen:
                seen.add(name)
                nb.cells[place] = restored(nb.cells[place], *given[name])
        missing = [one for name, one in given.items() if name not in seen]
        nb.cells += [cell for cell, marks in missing if marks["grade"]]
        return nb, resources


def given_cells(notebook) -> dict:
    """{grade_id: (the cell as it was handed out, its marks)}"""
    points = {cell.name: cell.max_score for cell in notebook.grade_cells}
    solutions = {cell.name for cell in notebook.solution_cells}
    found = {}
    for one in notebook.source_cells:
        marks = {
            "schema_version": SCHEMA, "grade_id": one.name, "grade": one.name in points,
            "solution": one.name in solutions, "locked": one.locked, "task": False,
            "checksum": one.checksum, "cell_type": one.cell_type,
        }  # fmt: skip
        if one.name in points:
            marks["points"] = points[one.name]
        make = new_code_cell if one.cell_type == "code" else new_markdown_cell
        found[one.name] = make(one.source, metadata={"nbgrader": marks}), marks
    return found


def restored(cell, given, marks):
    """The student's cell with the marks; anew, if it is read-only or of another kind."""
    if marks["locked"] or cell.cell_type != given.cell_type:
        return given
    cell.metadata["nbgrader"] = marks
    return cell


class Judged(NbGraderPreprocessor):
    """Puts into each tests cell the score, and what the course's check says."""

    course = Unicode(help="the course's folder, with its solutions").tag(config=True)
    python = Unicode(sys.executable, help="the course's Python").tag(config=True)
    given = Unicode("", help="exercises or chapters whose solutions stand in").tag(config=True)
    trust = Bool(False, help="run students' code without walls").tag(config=True)

    known: dict = {}  # of this process: what was said of a submission, by its state  # noqa: RUF012

    def preprocess(self, nb, resources):
        found = self.verdicts(resources["nbgrader"])
        resources["undecided"] = set()
        for cell in filter(is_grade, nb.cells):
            name = cell.metadata.nbgrader["grade_id"]
            answer = found["answers"].get(number_of(name))
            if answer is None or answer["is_open"]:
                resources["undecided"].add(name)
            if answer is not None:
                points = answer["score"] * cell.metadata.nbgrader["points"]
                data = {"text/plain": f"{points:.4g}", "text/html": answer["html"]}
                cell.outputs = [new_output("execute_result", data=data)]
        return nb, resources

    def verdicts(self, about) -> dict:
        """What the course says of a submission, which is asked once for all of its notebooks."""
        folders = course_folder(self)
        submission = Path(folders.format_path(
            folders.submitted_directory, about["student"], about["assignment"]))  # fmt: skip
        files = sorted(path for path in submission.rglob("*") if path.is_file())
        state = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        key = json.dumps([str(submission), state])
        if key not in self.known:
            self.known.clear()
            self.known[key] = self.asked_of_course(about, submission, folders)
        return self.known[key]

    def asked_of_course(self, about, submission, folders) -> dict:
        with Gradebook(about["db_url"]) as book:
            cells = [c for n in book.find_assignment(about["assignment"]).notebooks
                     for c in n.grade_cells]  # fmt: skip
            numbers = [number for cell in cells if (number := number_of(cell.name))]
        command = [
            self.python, "-m", "classroom.lms", "judge", str(submission.resolve()),
            "--student", about["student"], "--exercises", " ".join(numbers),
            "--out", str(Path(folders.root, "grades", about["assignment"])), "--given", self.given,
            *["--trust"] * self.trust,
        ]  # fmt: skip
        done = subprocess.run(command, cwd=self.course, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the course could not judge it: {done.stderr.strip()[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        self.tell(about, found)
        return found

    def tell(self, about, found):
        """What the teacher should know, in nbgrader's log."""
        for problem in found["problems"]:
            self.log.warning("%s: %s", about["student"], problem)
        for number, answer in found["answers"].items():
            if answer["is_open"]:
                why = "; ".join(answer["reasons"])
                self.log.warning("%s, %s: yours to decide: %s", about["student"], number, why)


class SaveVerdicts(SaveAutoGrades):
    """Saves scores. What a person has to decide stays open, for the formgrader."""

    def _add_score(self, cell, resources):
        super()._add_score(cell, resources)
        name = cell.metadata.nbgrader["grade_id"]
        if name in resources["undecided"]:
            about = self.notebook_id, self.assignment_id, self.student_id
            grade = self.gradebook.find_grade(name, *about)
            grade.auto_score, grade.needs_manual_grade = None, True
            self.gradebook.db.commit()

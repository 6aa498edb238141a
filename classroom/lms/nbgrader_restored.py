"""nbgrader's `autograde`, first half: a student's notebook, with nothing in it that could mislead.

What a student may have changed in nbgrader's own marks is replaced by what nbgrader's database
knows. It runs in nbgrader's Python; no code of a student does.
"""

from pathlib import Path

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

from .cells import SCHEMA

UNREADABLE = "What was handed in under this name cannot be read as a notebook."
ABSENT = "Nothing was handed in under this name."


class Readable(NotebookExporter):
    """Takes a file that is no notebook, or not there, for an empty one: the others still count."""

    def from_filename(self, filename, resources=None, **more):
        if Path(filename).exists():
            return super().from_filename(filename, resources=resources, **more)
        return self.from_notebook_node(instead(ABSENT), resources=resources, **more)

    def from_file(self, file_stream, resources=None, **more):
        try:
            notebook = nbformat.read(file_stream, as_version=4)
            nbformat.validate(notebook)
        except Exception:  # a student's file makes nbformat raise anything
            notebook = instead(UNREADABLE)
        return self.from_notebook_node(notebook, resources=resources, **more)


def instead(text):
    return new_notebook(cells=[new_markdown_cell(text)])


class RestoreMetadata(NbGraderPreprocessor):
    """Gives each cell the marks that nbgrader's database has for it, and to others none.

    Text that a student has written is shown as it stands: as Markdown, it could bring a program
    that runs in the browser of the teacher who looks at it.
    """

    def preprocess(self, nb, resources):
        known = resources["nbgrader"]
        with Gradebook(known["db_url"]) as book:
            given = rebuild_source_cells(book.find_notebook(known["notebook"], known["assignment"]))
        ours = self.read_teacher_notebook(known)
        texts = {cell.source for cell in ours.cells if cell.cell_type == "markdown"}
        nb.metadata = ours.metadata
        nb.cells = restore_cells([harmless(cell, texts) for cell in nb.cells], given)
        return nb, resources

    def read_teacher_notebook(self, known):
        """The teacher's own notebook of this name."""
        folders = self.parent.parent.coursedir
        folder = folders.format_path(folders.source_directory, ".", known["assignment"])
        return nbformat.read(Path(folder, f"{known['notebook']}.ipynb"), as_version=4)


def harmless(cell, texts):
    """The cell without marks but nbgrader's, and with text that is text."""
    marks = cell.metadata.get("nbgrader")
    if cell.cell_type != "code" and cell.source not in texts:
        cell = new_markdown_cell("~~~text\n" + cell.source.replace("~~~", "~ ~ ~") + "\n~~~")
    cell.metadata = {"nbgrader": marks} if isinstance(marks, dict) else {}
    return cell


def rebuild_source_cells(notebook) -> dict:
    """{grade_id: a cell as it was handed out}"""
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
        found[one.name] = make(one.source, metadata={"nbgrader": marks})
    return found


def restore_cells(cells, given) -> list:
    """Of cells with the same mark, the last keeps it. A tests cell that is gone comes back."""
    seen, found = set(), []
    for cell in reversed(cells):
        name = cell.metadata.pop("nbgrader", {}).get("grade_id")
        if type(name) is str and name in given and name not in seen:
            seen.add(name)
            cell = restore_metadata(given[name], cell)
        found.insert(0, cell)
    return [*found, *(one for name, one in given.items()
                      if name not in seen and one.metadata.nbgrader.grade)]  # fmt: skip


def restore_metadata(given, cell):
    """The student's cell; the one that was handed out, if it is read-only or of another kind."""
    if given.metadata.nbgrader.locked or cell.cell_type != given.cell_type:
        return given
    cell.metadata = given.metadata
    return cell

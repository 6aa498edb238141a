"""The first half of nbgrader's `autograde`: a student's notebook, with nothing that could mislead.

Marks of nbgrader that a student may have changed are replaced by those in nbgrader's database. This
runs in nbgrader's Python, and no code of a student does.
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
    """An exporter that takes a missing or unreadable file for an empty notebook."""

    def from_filename(self, filename, resources=None, **more):
        if Path(filename).exists():
            return super().from_filename(filename, resources=resources, **more)
        return self.from_notebook_node(instead(ABSENT), resources=resources, **more)

    def from_file(self, file_stream, resources=None, **more):
        try:
            notebook = nbformat.read(file_stream, as_version=4)
            nbformat.validate(notebook)
        except Exception:  # a student's file can make nbformat raise anything
            notebook = instead(UNREADABLE)
        return self.from_notebook_node(notebook, resources=resources, **more)


def instead(text):
    return new_notebook(cells=[new_markdown_cell(text)])


class RestoreMetadata(NbGraderPreprocessor):
    """A step that gives each cell the marks in nbgrader's database, and removes all other marks.

    Text that a student has written is shown unchanged: as Markdown, it could bring a program that
    runs in the browser of the teacher who looks at it.
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
        folders = self.parent.parent.coursedir
        folder = folders.format_path(folders.source_directory, ".", known["assignment"])
        return nbformat.read(Path(folder, f"{known['notebook']}.ipynb"), as_version=4)


def harmless(cell, texts):
    """Return the cell with nbgrader's marks alone, and a student's text as plain text."""
    marks = cell.metadata.get("nbgrader")
    if cell.cell_type != "code" and cell.source not in texts:
        cell = new_markdown_cell("~~~text\n" + cell.source.replace("~~~", "~ ~ ~") + "\n~~~")
    cell.metadata = {"nbgrader": marks} if isinstance(marks, dict) else {}
    return cell


def rebuild_source_cells(notebook) -> dict:
    """Return {grade_id: a cell as it was handed out}."""
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
    """Give a mark to the last cell that has it, and bring back tests cells that are gone."""
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
    """Return the student's cell, or the one handed out if it is read-only or of another kind."""
    if given.metadata.nbgrader.locked or cell.cell_type != given.cell_type:
        return given
    cell.metadata = given.metadata
    return cell

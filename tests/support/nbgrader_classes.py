"""A class that hands in through nbgrader, and what nbgrader's own commands make of it."""

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from classroom.lms.assignment import write_course

NAME = "02_collectives"
SWAP, SENT = "02_collectives.ipynb", "02d_bytes_of_all.ipynb"
GRADES = """
select student.id, base_cell.name, grade.auto_score, grade.needs_manual_grade from grade
join base_cell on base_cell.id = grade.cell_id
join submitted_notebook on submitted_notebook.id = grade.notebook_id
join submitted_assignment on submitted_assignment.id = submitted_notebook.assignment_id
join student on student.id = submitted_assignment.student_id
"""


class Course:
    """An assignment of two notebooks of chapter 02: exercises 2.1, 2.9 and 2.10."""

    def __init__(self, folder: Path):
        self.folder = folder
        list(write_course(["02"], folder))
        for path in (folder / "source" / NAME).glob("*.ipynb"):
            if path.name not in (SWAP, SENT):
                path.unlink()

    def nbgrader(self, *words):
        """One of nbgrader's own commands."""
        command = [sys.executable, "-m", "nbgrader", *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def set(self, line):
        """Add a line to the course's settings."""
        path = self.folder / "nbgrader_config.py"
        path.write_text(f"{path.read_text()}\n{line}\n")

    def hand_in(self, student) -> Path:
        """What this student has fetched, and may change now."""
        folder = self.folder / "submitted" / student / NAME
        shutil.copytree(self.folder / "release" / NAME, folder)
        return folder

    def grades(self) -> dict:
        """{(student, exercise): (score, whether a person has to look)}"""
        with sqlite3.connect(self.folder / "gradebook.db") as book:
            found = book.execute(GRADES).fetchall()
        return {(who, name.removeprefix("exercise-").replace("-", ".")): (score, bool(open))
                for who, name, score, open in found}  # fmt: skip

    def feedback(self, student, notebook) -> str:
        return (
            (self.folder / "feedback" / student / NAME / notebook).with_suffix(".html").read_text()
        )


def edit_cells(path: Path, change):
    """Let a function change the cells of a notebook."""
    notebook = json.loads(path.read_text())
    change(notebook["cells"])
    path.write_text(json.dumps(notebook))


def marks(cell) -> dict:
    return cell["metadata"].get("nbgrader", {})


def answer(path: Path, program: str):
    """Write an answer into the cell that is there for it."""

    def write(cells):
        next(cell for cell in cells if marks(cell).get("solution"))["source"] = program

    edit_cells(path, write)

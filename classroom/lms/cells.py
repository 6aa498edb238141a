"""A part's cells as nbgrader wants them: answers, tests with points, and read-only cells.

A cell with a hole becomes an answer of nbgrader's. `check("2.8")` becomes a separate cell with a
point, which students can read and run but not change.
"""

import ast
import re
from dataclasses import dataclass

from nbformat.v4 import new_code_cell

POINTS = 1
SCHEMA = 3  # of nbgrader's metadata
NUMBERED = re.compile(r"exercise-(\d+)-(\d+)")
TESTS = """\
outcome = {call}
display(outcome)
assert outcome.passed, "exercise {number} is not right yet"\
"""
FOLDER = """\
# The labs of this assignment are those in its folder. This cell comes before all others.
import os

os.environ["PEDAGOGY_COURSE"] = os.getcwd()\
"""


@dataclass(frozen=True)
class Check:
    """A call of `check` in a cell: `check("2.9", sent_bytes)`."""

    number: str
    text: str


def add_grade_cells(cells, exercises) -> list:
    """Return the cells of an assignment's notebook.

    exercises  {number: its exercise}; checks of others stay unchanged
    """
    found = []
    for cell in cells:
        rest, checks = split_cell(cell.source, exercises) if is_code(cell) else (cell.source, [])
        cell.source = rest
        if rest or not checks:
            found.append(cell)
        for check in checks:
            mark_answer(found, exercises[check.number])
            found.append(tests_of(check))
    first = next(place for place, cell in enumerate(found) if is_code(cell))
    return [*found[:first], about_folder(), *found[first:]]


def is_code(cell) -> bool:
    return cell.cell_type == "code"


def split_cell(source, exercises) -> tuple[str, list[Check]]:
    """Return what is left of a cell, and the checks that were in it."""
    lines, checks = source.split("\n"), []
    for statement in reversed(ast.parse(source).body):
        here = checks_in(statement)
        if here and all(check.number in exercises for check in here):
            checks = here + checks
            del lines[statement.lineno - 1 : statement.end_lineno]
    return "\n".join(lines).strip("\n"), checks


def checks_in(statement) -> list[Check]:
    """Return the checks of a statement that does nothing else, or [] for any other."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return []
    calls = call.args if get_callee(call) == "display" else [call]
    if not all(isinstance(one, ast.Call) and get_callee(one) == "check" for one in calls):
        return []
    return [Check(one.args[0].value, ast.unparse(one).replace("'", '"')) for one in calls]


def get_callee(call) -> str:
    return getattr(call.func, "id", "")


# ---- nbgrader's metadata of a cell ---


def id_of(number: str) -> str:
    """Return nbgrader's name, such as `exercise-2-8`: nbgrader allows no dot."""
    return f"exercise-{number.replace('.', '-')}"


def number_of(grade_id) -> str | None:
    """Return `2.8` for `exercise-2-8`, and None for a cell that a teacher has added."""
    found = NUMBERED.fullmatch(grade_id)
    return f"{found[1]}.{found[2]}" if found else None


def mark_cell(cell, grade_id, **marks):
    """Add nbgrader's metadata to a cell, and return the cell."""
    known = {"grade": False, "locked": False, "solution": False, "task": False}
    cell.metadata["nbgrader"] = {"schema_version": SCHEMA, "grade_id": grade_id, **known, **marks}
    return cell


def tests_of(check: Check):
    name = id_of(check.number)
    cell = new_code_cell(TESTS.format(call=check.text, number=check.number), id=name)
    return mark_cell(cell, name, grade=True, locked=True, points=POINTS)


def about_folder():
    return mark_cell(new_code_cell(FOLDER, id="folder"), "folder", locked=True)


def mark_answer(cells, exercise):
    """Mark the last cell that defines an answer; a lab's answer is in no cell."""
    if exercise.lab:
        return
    cell = next(c for c in reversed(cells) if is_code(c) and defines(c.source, exercise.name))
    if "nbgrader" not in cell.metadata:
        mark_cell(cell, f"answer-{exercise.number.replace('.', '-')}", solution=True)


def defines(source, name) -> bool:
    return any(getattr(node, "name", None) == name for node in ast.parse(source).body)

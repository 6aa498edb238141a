"""What `make test` leaves to `make test-all`: it is marked as deep.

Of the answers to an exercise on ranks the first right one and the first wrong one are tried, if the
exercise or its answers have changed since the commit before, or if it is their turn: every fourth
day. Whether the solution passes, and whether mistakes that need no ranks are told, is always tried.
Of the notebooks with holes those are executed whose holes have changed; and one by papermill, with
other parameters, another each day. The solved notebooks, which have all their cells, always are.
"""

import subprocess
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from pedagogy_lib.exercises.kit import Formula

MOST = 1  # right ones, and as many wrong ones, of an exercise on ranks; parameters of a detail
TURNS = 4  # days until the answers to each exercise on ranks have had their turn
DAYS = 12  # until each chapter with holes has had its turn under papermill
ROOT = Path(__file__).parents[1]
FOLDERS = "notebooks", "labs", "pedagogy_lib/exercises", "tests/answers"


def mark_deep(items):
    today, changed, seen = date.today().toordinal(), changed_files(), Counter()
    executed, chapters = notebooks_of(changed), chapters_of(today)
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        answer, chapter = parameters.get("answer"), parameters.get("chapter")
        if hasattr(answer, "exercise"):  # one of answer_files, which needs Jupyter
            left = is_on_ranks(answer.exercise) and (
                not has_its_turn(answer.exercise, today, changed) or comes_late(answer, seen)
            )
        elif chapter:
            left = chapter not in chapters
        else:
            left = is_a_late_detail(item, seen) or has_holes_left(item.path, executed)
        if left:
            item.add_marker(pytest.mark.deep)


def is_on_ranks(exercise) -> bool:
    return not isinstance(exercise, Formula)


def has_its_turn(exercise, day: int, changed: list[str]) -> bool:
    """Whether answers to an exercise on ranks are tried on a day.

    changed  files: of exercises, or of answers to them
    """
    chapter, number = map(int, exercise.number.split("."))
    its_files = f"/ch{chapter:02}/ex{number:02}_"
    return (chapter + number) % TURNS == day % TURNS or any(its_files in file for file in changed)


def comes_late(answer, seen) -> bool:
    """Whether this is an answer after the first few of its kind."""
    seen[answer.exercise.number, answer.kind] += 1
    return seen[answer.exercise.number, answer.kind] > MOST


def is_a_late_detail(item, seen) -> bool:
    """Whether this tries a detail of checks after the first few cases of it."""
    if not (item.path.name.startswith("test_check_details_") and hasattr(item, "callspec")):
        return False
    place = item.path, item.originalname
    seen[place] += 1
    return seen[place] > MOST


def has_holes_left(path, executed) -> bool:
    return path.suffix == ".ipynb" and path.parent.name == "notebooks" and path.name not in executed


def notebooks_of(changed: list[str]) -> set[str]:
    """The names of the notebooks with holes that have changed, or that use a lab that has.

    changed  files: of notebooks or labs. Those of a lab's chapter have its name in their text
    """
    labs = [f'lab(\\"{Path(file).stem}\\"' for file in changed if file.startswith("labs/")]
    return {
        path.name
        for path in notebooks()
        if f"notebooks/{path.name}" in changed or any(lab in path.read_text() for lab in labs)
    }


def chapters_of(day: int) -> set[str]:
    """The stems of the notebooks that are executed by papermill on a day."""
    return {path.stem for number, path in enumerate(notebooks()) if number % DAYS == day % DAYS}


def notebooks() -> list[Path]:
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def changed_files() -> list[str]:
    """What differs from the commit before the last; nothing where there is no git."""
    command = ["git", "diff", "--name-only", "HEAD~1", "--", *FOLDERS]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    except FileNotFoundError:
        return []

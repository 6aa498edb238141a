"""What `make test` leaves to `make test-all`: it is marked as deep.

Of the answers to an exercise on ranks the first right one and the first wrong one are tried. Of the
notebooks with holes those are executed whose holes have changed since the commit before, and one of
the others, another each day: all their cells stand in the solved notebooks, too, which are always
executed.
"""

import subprocess
from collections import Counter
from datetime import date
from pathlib import Path

import pytest
from answer_files import Answer

from pedagogy_lib.exercises.kit import Formula

MOST = 1  # right ones, and as many wrong ones, of each exercise on ranks
DAYS = 12  # until each notebook with holes has had its turn
ROOT = Path(__file__).parents[1]


def mark_deep(items):
    answers_seen, executed = Counter(), notebooks_of(date.today().toordinal(), changed_files())
    for item in items:
        if comes_late(item, answers_seen) or has_holes_left(item.path, executed):
            item.add_marker(pytest.mark.deep)


def comes_late(item, seen) -> bool:
    """Whether this is an answer after the first few of its kind."""
    answer = getattr(item, "callspec", None) and item.callspec.params.get("answer")
    if not isinstance(answer, Answer) or isinstance(answer.exercise, Formula):
        return False
    place = answer.exercise.number, answer.kind
    seen[place] += 1
    return seen[place] > MOST


def has_holes_left(path, executed) -> bool:
    return path.suffix == ".ipynb" and path.parent.name == "notebooks" and path.name not in executed


def notebooks_of(day: int, changed: list[str]) -> set[str]:
    """The names of the notebooks with holes that are executed on a day.

    changed  files: of notebooks or labs. Those of a lab's chapter have its name in their text
    """
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    labs = [f'lab(\\"{Path(file).stem}\\"' for file in changed if file.startswith("labs/")]
    return {
        path.name
        for number, path in enumerate(notebooks)
        if number % DAYS == day % DAYS
        or f"notebooks/{path.name}" in changed
        or any(lab in path.read_text() for lab in labs)
    }


def changed_files() -> list[str]:
    """What differs from the commit before the last; nothing where there is no git."""
    command = ["git", "diff", "--name-only", "HEAD~1", "--", "notebooks", "labs"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    except FileNotFoundError:
        return []

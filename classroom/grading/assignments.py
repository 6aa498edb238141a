"""The choice of the graded assignments, where a folder holds several, as nbgrader's do."""

import os

from pedagogy_lib.basics.errors import WrongInput

from . import course
from .files import JUNK


def that_fit(owners, asked) -> tuple[list, str]:
    """Return the submissions to assignments that ask for these exercises, and words on the choice.

    An assignment fits if anybody has handed in a notebook with one of them, by its name. Labs do
    not count, because those of one chapter are handed in with later chapters, too.
    """
    names = sorted({owner.assignment for owner in owners})
    if len(names) < 2 or not asked:
        return owners, ""
    parts = {one.part for one in asked}
    fit = {owner.assignment for owner in owners if parts & notebooks_in(owner)}
    if not fit:
        raise WrongInput(
            f"there are {len(names)} assignments, {', '.join(names)}, and in none a notebook "
            "that asks for these exercises: copy one into a folder of its own, and name that"
        )
    left = [name for name in names if name not in fit]
    said = f", of {', '.join(sorted(fit))}" + (f" (left out: {', '.join(left)})" if left else "")
    return [owner for owner in owners if owner.assignment in fit], said


def notebooks_in(owner) -> set[str]:
    """Return the stems of the course's notebooks in a submission's folders."""
    return {
        course.stem_of(name)
        for folder in owner.paths
        for here, _, names in os.walk(folder)
        for name in names
        if name.lower().endswith(".ipynb") and not JUNK.search(f"{here}/{name}")
    }

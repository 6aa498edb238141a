"""The course's folders, and the form in which a path in them is shown to the learner."""

import os
from pathlib import Path

OWN = "PEDAGOGY_COURSE"  # environment variable: the learner's folder if the course is read-only
PUBLISHED = Path(__file__).resolve().parents[2]
COURSE = Path(os.environ.get(OWN) or PUBLISHED)  # the folder in which `make lab` starts JupyterLab


def short_path(filename: str) -> str:
    """Return a file's path relative to the course's folder or, outside it, the current folder."""
    if not os.path.exists(filename):
        return filename
    try:
        start = COURSE if Path(filename).resolve().is_relative_to(COURSE) else os.getcwd()
        relative = os.path.relpath(filename, start)
    except FileNotFoundError:  # the current folder has been deleted
        return filename
    return filename if relative.startswith("..") else os.path.join(".", relative)

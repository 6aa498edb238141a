"""`prepared`: the course as it is put into a sandbox, without anything that holds an answer.

The rule: of the package, all but the chapters' exercises, whose files hold what is right. What a
check has to run beside the answer is sent by the grader, a function at a time. Of the labs, those
with holes. Nothing else: no solutions, no tests, no classroom.
"""

import atexit
import compileall
import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from pedagogy_lib.basics.places import COURSE

PARTS = ("pedagogy_lib", "labs")
CHAPTERS = "exercises/ch"  # with its number: files that hold what is right
LEFT_OUT = ("__pycache__", ".ipynb_checkpoints")


def files_of(course: Path) -> list[Path]:
    """The files of a course that go into a sandbox, relative to its folder."""
    found = (path for part in PARTS for path in sorted((course / part).rglob("*")))
    relative = (path.relative_to(course) for path in found if path.is_file())
    return [path for path in relative if goes_in(path)]


def goes_in(path: Path) -> bool:
    below = Path(*path.parts[1:]).as_posix()
    return not below.startswith(CHAPTERS) and not set(LEFT_OUT) & set(path.parts)


def chapters_in(exercises) -> list[str]:
    """The names of the folders whose files hold what is right."""
    return sorted(path.name for path in Path(exercises).glob("ch[0-9][0-9]"))


def digest_of(course: Path, files) -> str:
    found = hashlib.sha256()
    for path in files:
        content = (course / path).read_bytes()
        found.update(f"{path}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()[:16]


def prepared(folder: Path | None = None, course: Path = COURSE) -> Path:
    """A folder with the course for sandboxes. It is made once for each state of the course.

    folder  where such folders are kept; one that belongs to this process, if none is named
    """
    folder = own_folder() if folder is None else folder
    files = files_of(course)
    there = folder / digest_of(course, files)
    if not there.exists():
        new = Path(tempfile.mkdtemp(dir=folder))
        for path in files:
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(course / path, new / path)
        compileall.compile_dir(new / PARTS[0], quiet=2)
        with contextlib.suppress(OSError):  # another process of this grading was quicker
            new.rename(there)
        shutil.rmtree(new, ignore_errors=True)
    return there


def own_folder() -> Path:
    """Of this process, until it ends, or until `release()`."""
    if os.getpid() not in _held:  # a forked process makes one anew
        _held[os.getpid()] = Path(tempfile.mkdtemp(prefix="course-"))
        atexit.register(release)
    return _held[os.getpid()]


def release():
    """Remove what has been prepared for this process."""
    folder = _held.pop(os.getpid(), None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


_held: dict[int, Path] = {}

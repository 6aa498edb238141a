"""The course as `prepare_course` puts it into a sandbox, without anything that holds an answer.

A sandbox has of the packages what a handout has, of the checks what they run next to an answer,
and of the labs those with holes. Nothing in it judges an answer or says what is right, and it has
nothing else: no solutions, no tests, no classroom.
"""

import atexit
import compileall
import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from classroom.handout.checks import next_to_answers
from pedagogy_lib.basics.folders import COURSE

PARTS = ("pedagogy_lib", "coursekit", "labs")
LEFT_OUT = ("__pycache__", ".ipynb_checkpoints")


def files_of(course: Path) -> list[Path]:
    """Return the files of a course that a sandbox is made of, relative to its folder."""
    found = [path for part in PARTS for path in sorted((course / part).rglob("*"))]
    found += sorted((course / "chapters").glob("ch*/chapter.toml"))
    relative = (path.relative_to(course) for path in found if path.is_file())
    return [path for path in relative if not set(LEFT_OUT) & set(path.parts)]


def digest_of(course: Path, files, exercises) -> str:
    found = hashlib.sha256(" ".join(exercises).encode())
    for path in files:
        content = (course / path).read_bytes()
        found.update(f"{path}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()[:16]


def prepare_course(folder: Path | None = None, exercises=()) -> Path:
    """Return a folder with the course for sandboxes, made once for each state of the course.

    folder     where such folders are kept; by default one that belongs to this process
    exercises  numbers of those whose answers will run there; by default all
    """
    folder = own_folder() if folder is None else folder
    files = files_of(COURSE)
    there = folder / digest_of(COURSE, files, exercises)
    if not there.exists():
        new = Path(tempfile.mkdtemp(dir=folder))
        fill(new, files, exercises)
        for part in (*PARTS, "chapters"):
            compileall.compile_dir(new / part, quiet=2)
        with contextlib.suppress(OSError):  # another process of this grading was quicker
            new.rename(there)
        shutil.rmtree(new, ignore_errors=True)
    return there


def fill(new: Path, files, exercises):
    for path in files:
        (new / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(COURSE / path, new / path)
    for name, content in next_to_answers(exercises).items():
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).write_bytes(content)


def own_folder() -> Path:
    """Return this process's folder, which exists until it ends or until `release()`."""
    if os.getpid() not in _held:  # a forked process makes its own
        _held[os.getpid()] = Path(tempfile.mkdtemp(prefix="course-"))
        atexit.register(release)
    return _held[os.getpid()]


def release():
    """Remove what has been prepared for this process."""
    folder = _held.pop(os.getpid(), None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


_held: dict[int, Path] = {}

"""The folder of one sandbox: the course, the student's files in it, and the driver."""

import os
import shutil
from pathlib import Path, PurePosixPath

from .course import prepare_course
from .refusals import Refusal

OURS = ("chapters", "coursekit", "pedagogy_lib", "cells")
MOST_FILES, MOST_BYTES = 1000, 64 * 2**20
HERE = Path(__file__).parent
PROGRAMS = ("drop_privileges.py", "supervisor.py", "new_root.py")
COURSE, DRIVER = "course", "driver"
CELLS = f"{COURSE}/cells"  # where cells are written, so that errors can show their lines


def lay_out(folder: Path, files: dict[str, bytes], driver: Path, exercises=()):
    """Fill an empty folder.

    files      the student's files, by their paths in the course
    driver     the program that runs in the sandbox
    exercises  numbers of those that are answered there; by default all
    Raises     Refusal for a path that leads out of the course, and for too many or too large files
    """
    need_few(files)
    places = {name: place_of(name) for name in files}
    prepared = prepare_course(exercises=exercises)
    shutil.copytree(prepared, folder / COURSE, copy_function=shutil.copy2)
    (folder / DRIVER).mkdir()
    (folder / CELLS).mkdir()
    for program in PROGRAMS:
        shutil.copy2(HERE / program, folder / DRIVER / program)
    shutil.copy2(driver, folder / DRIVER / "driver.py")
    for name, content in files.items():
        path = folder / COURSE / places[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    open_to_read(folder)


def need_few(files):
    total = sum(map(len, files.values()))
    if len(files) > MOST_FILES or total > MOST_BYTES:
        raise Refusal(
            f"this submission has {len(files)} files with {total / 1e6:.0f} MB; the most that is "
            f"taken is {MOST_FILES} files with {MOST_BYTES / 1e6:.0f} MB: hand in labs/ and "
            "notebooks/ alone"
        )


def place_of(name: str) -> PurePosixPath:
    """Return the path of a student's file in the course; raise Refusal if it has none there."""
    path = PurePosixPath(name)
    odd = "\0" in name or "\\" in name or path.is_absolute() or ".." in path.parts
    if odd or not path.parts or path.parts[0] in OURS:
        raise Refusal(f"a file of this submission is called {name!r:.80}: it has no place in labs/")
    return path


def open_to_read(folder: Path):
    """Let other users read the folder, and nobody write to its files."""
    for path, folders, names in os.walk(folder):
        for name in folders:
            os.chmod(os.path.join(path, name), 0o755)
        for name in names:
            os.chmod(os.path.join(path, name), 0o444)
    folder.chmod(0o755)

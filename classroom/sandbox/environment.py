"""The environment of a student's process: Python, a few variables, nothing of the teacher's."""

import sys
from pathlib import Path

from pedagogy_lib.basics.folders import COURSE
from pedagogy_lib.ranks.fork_server_client import ENVIRON

SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin")
# The loader's index, and the links that choose between programs of one name, such as cc.
SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives")
PROCESSORS = "/sys/devices/system/cpu"  # torch counts the cores here
HOST = "sandbox"
HOSTS = f"127.0.0.1 localhost {HOST}\n::1 localhost\n"
STUDENT = 1000  # the user's number inside, where it can be chosen
PEOPLE = f"student:x:{STUDENT}:{STUDENT}:student:/tmp:/bin/sh\n"
TEACHERS = (
    "chapters",
    "classroom",
    "coursekit",
    "pedagogy_lib",
    "solutions",
    "tests",
)  # if they are installed


def environment(scratch="/tmp") -> dict[str, str]:
    """Return all variables that a student's process starts with."""
    return ENVIRON | {
        "PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "USER": "student",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "agg",
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
    }


def readable() -> list[Path]:
    """Return the system's folders and those of this Python, each before the folders in it."""
    python = {Path(path) for path in (sys.prefix, sys.base_prefix)}
    python |= {path.resolve() for path in python}
    system = {Path(path) for path in (*SYSTEM, *SETTINGS, PROCESSORS)}
    found = [path for path in system | python if path.exists()]
    return sorted(found, key=lambda path: (len(path.parts), path))


def find_hidden_folders() -> list[Path]:
    """Return the teacher's folders within what can be read: this course, if it is there.

    It raises nothing, because a folder that does not exist hides nothing.
    """
    installed = [Path(path, name) for path in sys.path for name in TEACHERS if path]
    candidates = {COURSE, *installed, *(path.resolve() for path in installed)}
    return sorted(path for path in candidates if path.is_dir() and is_within(path, readable()))


def is_within(path: Path, folders) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)

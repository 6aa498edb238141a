"""A sandbox by another user's rights, for a root grader in a container without namespaces.

Gradescope's is such a container. What the grader wants to keep to itself has to be root's alone
(mode 0700). The network stays as open as the container's.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from pedagogy_lib.basics.folders import COURSE

from .bubblewrap import ALONE
from .free_uids import stranger
from .limits import Limits
from .staging import CELLS

NAME = "other user"
PROMISES = (
    "cannot read what is root's alone, signal a process of another user, or outlive the grader; it "
    "does see other processes' names, and reaches the network that the container has"
)
TRIAL = "import os, sys; sys.exit(any(os.access(path, os.R_OK) for path in sys.argv[1:]))"
TRIAL_SECONDS = 20.0


def why_not() -> str:
    """Return why it cannot be used here and what to do, or "" if it can. It is tried."""
    if os.geteuid() != 0:
        return "only root can become another user"
    secret = COURSE / "chapters"
    tried = subprocess.run(
        [sys.executable, "-I", "-c", TRIAL, secret], capture_output=True, user=stranger(), group=1,
        extra_groups=[], cwd="/", timeout=TRIAL_SECONDS,
    ) if is_executable_by_all(Path(sys.executable)) else None  # fmt: skip
    if tried is None or tried.returncode not in (0, 1):
        return f"other users cannot start {sys.executable}: install Python where they can"
    return f"other users can read {secret}: `chmod 700 {COURSE}`" if tried.returncode else ""


def is_executable_by_all(program: Path) -> bool:
    """Return whether another user reaches a program by each of the names that lead to it."""
    names = {program, program.resolve()}
    return all(folder.stat().st_mode & 0o001 for name in names for folder in name.parents)


class Walls:
    more = ALONE

    def __init__(self, folder: Path, limits: Limits):
        self.folder, self.place, self.user = folder, str(folder), stranger()
        self.scratch = folder / "tmp"
        self.scratch.mkdir()
        for writable in (self.scratch, folder / CELLS):
            os.chown(writable, self.user, self.user)

    def command(self, wish, lifeline, given):
        wish |= {"own": "user", "lifeline": lifeline, "given": given}
        keeper = self.folder / "driver" / "supervisor.py"
        return [sys.executable, "-I", str(keeper), json.dumps(wish)], [lifeline]

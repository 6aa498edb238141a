"""A sandbox by util-linux's `unshare` and Landlock, where bubblewrap is missing.

The namespaces and the new root are those that bubblewrap would make. Landlock is a second barrier:
even inside, only three folders can be written, and no signal leaves.

Landlock alone would not suffice. It knows TCP ports but no addresses, so it cannot leave the
loopback open and close the rest. Nor does it close sockets that are files, such as a desktop's.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from . import bubblewrap
from .environment import HOSTS, PEOPLE, STUDENT, find_hidden_folders, readable
from .free_uids import stranger
from .limits import Limits
from .staging import CELLS

NAME = "landlock"
NAMESPACES = ("--mount", "--net", "--ipc", "--uts", "--pid", "--cgroup")
AS_STUDENT = (f"--map-user={STUDENT}", f"--map-group={STUDENT}")
TO_INSTALL = "`pip install landlockpy==0.2.0` into this Python"
PROMISES = f"as bubblewrap: {bubblewrap.PROMISES}"
TRIAL_SECONDS = 20.0


def why_not() -> str:
    """Return why it cannot be used here and what to do, or "" if it can. It is tried."""
    try:
        import landlockpy
    except ImportError:
        return f"landlockpy is not installed: {TO_INSTALL}"
    if not landlockpy.supported():
        return "this kernel has no Landlock, which is on from Linux 5.13 on"
    if shutil.which("unshare") is None:
        return "there is no `unshare`: install util-linux"
    tried = subprocess.run(
        [*apart(), "--mount-proc", "true"], capture_output=True, text=True,
        timeout=TRIAL_SECONDS, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if tried.returncode == 0:
        return ""
    return (
        f"the system does not let it work ({tried.stderr.strip()[-200:]}); see user_namespaces(7)"
    )


def apart() -> list[str]:
    """Return the command that starts a program as the first one of its namespaces."""
    own_user = [] if os.geteuid() == 0 else ["--user", *AS_STUDENT, "--keep-caps"]
    return [shutil.which("unshare"), *own_user, *NAMESPACES, "--fork", "--kill-child"]


class Walls:
    place, scratch, more = bubblewrap.PLACE, "/tmp", bubblewrap.ALONE

    def __init__(self, folder: Path, limits: Limits):
        self.folder, self.limits = folder, limits
        self.user = stranger() if os.geteuid() == 0 else None

    def command(self, wish, lifeline, given):
        wish |= {
            "own": "root", "lifeline": lifeline, "given": given, "base": self.make_folder("base"),
            "course": str(self.folder / "course"), "disk_bytes": self.limits.disk_bytes,
            "places": self.places(), "cells": f"{self.place}/{CELLS}",
        }  # fmt: skip
        keeper = self.folder / "driver" / "supervisor.py"
        return [*apart(), sys.executable, "-I", str(keeper), json.dumps(wish)], [lifeline]

    def make_folder(self, name) -> str:
        (self.folder / name).mkdir()
        return str(self.folder / name)

    def places(self) -> dict[str, str]:
        (self.folder / "hosts").write_text(HOSTS)
        (self.folder / "people").write_text(PEOPLE)
        own = {"/etc/hosts": "hosts", "/etc/passwd": "people",
               f"{self.place}/course": "course", f"{self.place}/driver": "driver"}  # fmt: skip
        found = [
            *((path, str(path)) for path in readable()),
            *((path, "") for path in find_hidden_folders()),
        ]
        found.sort(key=lambda one: len(one[0].parts))
        places = {str(path): outside for path, outside in found}
        return places | {inside: str(self.folder / name) for inside, name in own.items()}

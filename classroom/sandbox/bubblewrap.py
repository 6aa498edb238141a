"""A sandbox by bubblewrap: namespaces of Linux, and a root with only Python and the course.

As root, bubblewrap makes the namespaces with root's rights, and the student's process becomes an
unknown user inside. As any other user, it uses a user namespace.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .environment import HOST, HOSTS, PEOPLE, STUDENT, environment, find_hidden_folders, readable
from .free_uids import stranger
from .limits import Limits
from .staging import CELLS

NAME = "bubblewrap"
ALONE = ("--alone",)  # for the driver: all processes that it can see, or signal, are its own
PLACE = "/sandbox"  # where the sandbox's folder is inside
NAMESPACES = ("pid", "ipc", "uts", "net", "cgroup-try")
TO_INSTALL = "install bubblewrap 0.7 or newer (`sudo apt install bubblewrap`)"
PROMISES = (
    "sees Python and the course alone; has no network but its own loopback; sees and signals no "
    "process outside; writes to memory of limited size alone; ends with the grader"
)
TRIAL_SECONDS = 20.0


def why_not() -> str:
    """Return why it cannot be used here and what to do, or "" if it can. It is tried."""
    program = shutil.which("bwrap")
    if program is None:
        return f"it is not installed: {TO_INSTALL}"
    told = subprocess.run([program, "--help"], capture_output=True, text=True)
    if "--size" not in told.stdout + told.stderr:
        return f"it is too old: {TO_INSTALL}"
    wish = arguments(Path("/nowhere"), Limits(), None)
    tried = subprocess.run(
        [program, *wish, "/usr/bin/env", "true"],
        capture_output=True, text=True, timeout=TRIAL_SECONDS, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if tried.returncode == 0:
        return ""
    return (
        f"the system does not let it work ({tried.stderr.strip()[-200:]}); see user_namespaces(7)"
    )


class Walls:
    place, scratch, more = PLACE, "/tmp", ALONE

    def __init__(self, folder, limits):
        self.folder, self.limits = folder, limits
        self.user = stranger() if os.geteuid() == 0 else None

    def command(self, wish, lifeline, given) -> tuple[list[str], list[int]]:
        """Return the command to run, and the file descriptors that it inherits."""
        (self.folder / "hosts").write_text(HOSTS)
        (self.folder / "people").write_text(PEOPLE.replace(str(STUDENT), str(self.user or STUDENT)))
        text = "\0".join(arguments(self.folder, self.limits, self.user)) + "\0"
        fd = os.memfd_create("arguments")
        os.write(fd, text.encode())
        os.lseek(fd, 0, os.SEEK_SET)
        entry = [sys.executable, "-I", f"{PLACE}/driver/drop_privileges.py", json.dumps(wish)]
        return [shutil.which("bwrap"), "--args", str(fd), *entry], [fd]


def arguments(folder: Path, limits: Limits, user) -> list[str]:
    return [
        *rights(),
        "--die-with-parent", "--new-session", "--hostname", HOST, "--clearenv",
        *(part for name, value in environment().items() for part in ("--setenv", name, value)),
        "--proc", "/proc", "--dev", "/dev",
        *memory("/dev/shm", limits), *memory("/tmp", limits),
        *files(folder),  # after /tmp, because this Python may be in /tmp
        *memory(f"{PLACE}/{CELLS}", limits),
        "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp",
    ]  # fmt: skip


def rights() -> list[str]:
    apart = [f"--unshare-{kind}" for kind in NAMESPACES] + ["--cap-drop", "ALL"]
    if os.geteuid() == 0:  # needed to become an unknown user, who has no capability
        return [*apart, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return [*apart, "--unshare-user", "--uid", str(STUDENT), "--gid", str(STUDENT)]


def memory(place, limits) -> list[str]:
    return ["--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", place]


def files(folder: Path) -> list[str]:
    """Return the flags for the root: the system's programs, this Python, the sandbox's folder."""
    found = [
        *((path, True) for path in readable()),
        *((path, False) for path in find_hidden_folders()),
    ]
    wish = []
    for path, is_shown in sorted(found, key=lambda one: len(one[0].parts)):
        if not is_shown:
            wish += ["--tmpfs", str(path), "--remount-ro", str(path)]
        elif path.is_symlink() and path.parent == Path("/"):
            wish += ["--symlink", os.readlink(path), str(path)]
        else:
            wish += build_bind_flags(path, path)
    own = {"hosts": "/etc/hosts", "people": "/etc/passwd",
           "course": f"{PLACE}/course", "driver": f"{PLACE}/driver"}  # fmt: skip
    for name, place in own.items():
        if (folder / name).exists():
            wish += build_bind_flags(folder / name, Path(place))
    return wish


def build_bind_flags(outside: Path, inside: Path) -> list[str]:
    """Return the flags of a bind; bubblewrap alone would make the folders above it private."""
    above = [str(folder) for folder in reversed(inside.parents) if folder != Path("/")]
    made = [part for folder in above for part in ("--perms", "0755", "--dir", folder)]
    return [*made, "--ro-bind", str(outside), str(inside)]

"""`Disk`: a small separate disk that can become full, made without being root."""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ..basics.errors import LaunchError, need
from ..basics.screen import say
from ..basics.units import brief, format_bytes
from .amounts import is_real
from .namespace_support import why_not
from .other_users import keeps_to_itself

SCRIPT = Path(__file__).with_name("disk_holder.py")
MOST_MEGABYTES = 1000.0  # the disk is in memory
END_SECONDS = 2.0
NOT_ALONE = (
    "other people use this computer, so ranks have a network of their own here, from which a disk "
    "of one's own cannot be seen"
)


def need_size(megabytes):
    is_size = is_real(megabytes) and 0.01 <= megabytes <= MOST_MEGABYTES
    sentence = f"megabytes is a number from 0.01 to {MOST_MEGABYTES:g}"
    need(is_size, f"{sentence}, not {brief(megabytes)}")


class Disk:
    """A disk of a chosen size, in memory: `with Disk(megabytes=4) as disk: …`.

    A program that writes more than that gets the error of a full disk. The disk is a file system
    that a separate process holds; programs of the same user see it at `path`. It is removed, with
    all files on it, by `close()`, at the end of the `with` block or with this process.

    Raises  LaunchError for a size that makes no sense, or if the system allows no such disk
    """

    def __init__(self, megabytes=4.0):
        need_size(megabytes)
        need(sys.platform == "linux", "a disk of one's own needs Linux")
        self.folder = tempfile.TemporaryDirectory(prefix="disk-")  # the place where it is mounted
        self.holder = subprocess.Popen(
            [sys.executable, SCRIPT, self.folder.name, str(int(megabytes * 1e6))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # the stop button signals only the notebook's group
        )
        said = self.holder.stdout.readline().strip()
        if said != "ok":
            self.close()
            number = int(said) if said.isdigit() else None
            raise LaunchError(why_not(number, "a disk") or f"there can be no disk here: {said}")
        self.path = Path(f"/proc/{self.holder.pid}/root{self.folder.name}")

    @classmethod
    def here(cls, megabytes=4.0) -> "Disk | None":
        """Make a disk if this system allows it; otherwise print the reason and return None."""
        need_size(megabytes)
        try:
            need(os.geteuid() == 0 or not keeps_to_itself(), NOT_ALONE)
            return cls(megabytes)
        except LaunchError as error:
            say(f"No disk can be full here: {error.message}.")
            return None

    @property
    def free_bytes(self) -> int:
        room = os.statvfs(self.path)
        return room.f_bavail * room.f_frsize

    def close(self):
        """Remove the disk with all files on it."""
        with contextlib.suppress(OSError):
            self.holder.stdin.close()
        try:
            self.holder.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.holder.kill()
            self.holder.wait()
        self.holder.stdout.close()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        if self.holder.poll() is not None:
            return "a disk that is gone"
        return f"a disk with {format_bytes(self.free_bytes)} of free room, at {self.path}"

"""A driver in a sandbox, the grader's ends of its pipes, and how it ends."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import processes
from .environment import environment
from .limits import Limits
from .output import Output
from .staging import COURSE, DRIVER, HERE, lay_out
from .watcher import Watcher


class SandboxProcess:
    """One sandbox: write to `requests`, read from `replies`.

    way     a module of this folder that has `Walls`
    driver  the program that runs in it; it gets the numbers of its two pipes
    """

    def __init__(self, files, way, limits: Limits, driver=HERE / "driver.py", exercises=()):
        self.folder = Path(tempfile.mkdtemp(prefix="sandbox-"))
        self.is_open = True
        try:
            lay_out(self.folder, files, driver, exercises)
            self.start(way.Walls(self.folder, limits), limits)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def start(self, walls, limits):
        self.user = walls.user  # the user of its processes; None if it is the grader
        hear, self.requests = os.pipe()
        self.replies, say = os.pipe()
        self.pipes = [self.requests, self.replies]
        printed, to_print = os.pipe()
        lifeline, held = os.pipe()
        self.lifeline = os.fdopen(held, "wb", buffering=0)
        driver, course = (f"{walls.place}/{part}" for part in (f"{DRIVER}/driver.py", COURSE))
        wish = {
            "limits": {int(name): most for name, most in limits.build_rlimits().items()},
            "user": walls.user,
            "folder": course,
            "command": [sys.executable, "-I", driver, course, str(hear), str(say), *walls.more],
        }
        command, inherited = walls.command(wish, lifeline, [hear, say])
        theirs = [hear, say, *inherited]
        try:
            self.process = subprocess.Popen(
                command, pass_fds=theirs, stdin=subprocess.DEVNULL, stdout=to_print,
                stderr=to_print, start_new_session=True, cwd=self.folder,
                env=environment(str(walls.scratch)),
            )  # fmt: skip
        finally:
            for fd in {*theirs, lifeline, to_print}:
                os.close(fd)
        self.output = Output(printed, limits.printed_bytes)
        self.watcher = Watcher(self.process.pid, limits, self.end_processes)

    @property
    def fault(self) -> str:
        """The reason why the sandbox was ended, or an empty text."""
        return self.watcher.fault

    def read_output(self) -> str:
        return self.output.take_text()

    def end_processes(self):
        self.lifeline.close()
        processes.end(self.process)

    def close(self):
        """End all that runs in it, and remove its folder; call it again if it was interrupted."""
        if not self.is_open:
            return
        self.watcher.close()
        self.end_processes()
        while self.pipes:
            os.close(self.pipes.pop())
        shutil.rmtree(self.folder, ignore_errors=True)
        self.is_open = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

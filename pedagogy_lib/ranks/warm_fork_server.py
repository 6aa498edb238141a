"""A fork server that is itself forked, from a process that has imported all that ranks need.

It serves a process that tries many answers, each in a separate child. A server that starts as a
program would import torch for each of them, which takes seconds of processor time.
"""

import os
import signal
import socket
import subprocess
import time

from .fork_server import ForkServer
from .fork_server_client import ENVIRON, IDLE_SECONDS, Server

LOOK_SECONDS = 0.01  # between two checks whether the server has ended


class WarmForkServer(Server):
    """A fork server to start in a single-threaded process that imported torch under `ENVIRON`."""

    def __init__(self):
        super().__init__()
        self.has_preloaded = True

    def start(self):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                self.serve(theirs)
            finally:
                os._exit(1)
        theirs.close()
        return ours, ChildProcess(pid)

    def serve(self, control):
        """Do in the child what fork_server.py does as a program; never return."""
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.environ.update(ENVIRON | self.own_environ())
        with open(os.devnull) as nothing, (self.scratch / "server.log").open("wb") as log:
            for given, number in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(given.fileno(), number)
        control = control.detach()
        os.closerange(3, control)
        os.closerange(control + 1, os.sysconf("SC_OPEN_MAX"))
        ForkServer(control, str(self.scratch), "fork", IDLE_SECONDS).serve()
        os._exit(0)


class ChildProcess:
    """A child of this process, with the methods of `subprocess.Popen` that `Server` uses."""

    def __init__(self, pid: int):
        self.pid, self.returncode = pid, None

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # other code has waited for it
                ended, status = self.pid, 0
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def wait(self, timeout: float = float("inf")) -> int:
        """Return the exit code; raise subprocess.TimeoutExpired after `timeout` seconds."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("fork server", timeout)
            time.sleep(LOOK_SECONDS)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

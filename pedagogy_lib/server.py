"""The notebook's side of the fork server: start it once, ask it for ranks, hear who has ended."""

import atexit
import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from .errors import LaunchError

PACKAGE = Path(__file__).parent
SCRIPT = PACKAGE / "forkserver.py"
# Forking is safe where torch's libraries start no threads on import. Elsewhere each rank is a
# fresh interpreter, which takes seconds instead of milliseconds.
START_METHOD = "fork" if sys.platform == "linux" else "spawn"
LOOPBACK = {"linux": "lo", "darwin": "lo0"}.get(sys.platform, "lo")
ENVIRON = {
    "OMP_NUM_THREADS": "1",  # a rank is one thread: cores are shared by ranks
    "MKL_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": LOOPBACK,
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}


class Server:
    """One fork server and the control socket to it."""

    def __init__(self):
        if sys.platform == "win32":
            raise LaunchError("ranks need Linux or macOS; on Windows, work inside WSL 2")
        self.owner = os.getpid()
        self.sources = state_of_sources()
        self.method = os.environ.get("PEDAGOGY_START_METHOD", START_METHOD)
        self.scratch = Path(tempfile.mkdtemp(prefix="launch-"))
        self.control, theirs = socket.socketpair()
        with theirs, (self.scratch / "server.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, SCRIPT, str(theirs.fileno()), self.scratch, self.method],
                pass_fds=[theirs.fileno()],
                env=os.environ | ENVIRON,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the stop button signals the notebook's group only
            )
        self.lines = LineReader(self.control)
        self.is_ready = False
        self.has_preloaded = False
        self.owed = 0  # lines still to come: `exited` for each rank, `killed` for each wish to kill
        self.asked = self.forked = 0  # ranks that were wished for, and that it has told the PID of

    def usable(self) -> bool:
        """Whether it lives, is ours, and has imported this package as it is now."""
        is_open = self.control.fileno() >= 0
        is_ours = is_open and self.owner == os.getpid() and self.process.poll() is None
        return is_ours and self.scratch.is_dir() and self.sources == state_of_sources()

    def await_ready(self):
        """Wait until torch is imported there; raises LaunchError if it could not be."""
        try:
            while not self.is_ready:
                self.is_ready = "ready" in self.lines.read(self.lost)
        except KeyboardInterrupt:
            self.close()  # that line may have been read and lost: the next launch starts anew
            raise

    def lost(self):
        log = self.scratch / "server.log"
        said = log.read_text(errors="replace").strip() if log.exists() else ""
        raise LaunchError(f"the process that starts ranks has ended; run the cell again. {said}")

    def hear(self) -> list[list]:
        """What it has said since it was last heard, as lists of words.

        `forked` gets the number of the rank in addition: a launch may end, and the next one begin,
        before the server has come to say it.
        """
        lines = [line.split() for line in self.lines.read(self.lost)]
        for words in lines:
            if words[0] == "forked":
                self.forked += 1
                words.append(self.forked)
            else:
                self.owed -= 1
        return lines

    def new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.scratch))

    def fork(self, channel_fd, output_fd) -> int:
        """Wish for a rank; returns its number among all that this server has forked."""
        self.owed += 1
        self.asked += 1
        try:
            socket.send_fds(self.control, [b"F"], [channel_fd, output_fd])
        except (BrokenPipeError, ConnectionResetError):
            self.lost()
        return self.asked

    def preload(self):
        """Have it import what the ranks just killed had to import themselves."""
        if not self.has_preloaded:
            self.has_preloaded = True
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.control.sendall(b"P")

    def kill_ranks(self):
        self.owed += 1
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.control.sendall(b"K")

    def close(self):
        """Hang up: the server then kills its ranks and leaves."""
        if self.owner != os.getpid():
            return
        with contextlib.suppress(LaunchError, ValueError):  # ValueError: it is closed already
            while self.owed and select.select([self.control], [], [], 0)[0]:
                self.hear()
        self.control.close()
        if not self.owed:
            self.process.kill()  # it has no rank to end, and may be busy importing
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)


def state_of_sources() -> list[tuple[str, int]]:
    """Which files this package has, and when each was last changed."""
    with os.scandir(PACKAGE) as files:
        return sorted((f.name, f.stat().st_mtime_ns) for f in files if f.name.endswith(".py"))


class LineReader:
    """Splits what arrives on a socket into lines."""

    def __init__(self, connection):
        self.connection, self.rest = connection, b""

    def read(self, on_close) -> list[str]:
        try:
            data = self.connection.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            on_close()
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [line.decode() for line in lines]


_server: Server | None = None


def shared_server() -> Server:
    """The one fork server of this process, started on first use."""
    global _server
    if _server is None or not _server.usable():
        if _server is not None:
            _server.close()
        _server = Server()
    return _server


def warm_up():
    """Start the server without waiting for it."""
    if sys.platform != "win32":
        shared_server()


@atexit.register
def close_server():
    global _server
    if _server is not None:
        _server.close()
        _server = None


def leave_it_to_the_parent():
    """In a child that the learner forks: its copy of the socket would keep the server alive."""
    if _server is not None:
        _server.control.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=leave_it_to_the_parent)

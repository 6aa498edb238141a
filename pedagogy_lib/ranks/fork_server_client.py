"""The notebook's side of the fork server: it starts the server, requests ranks, hears of exits."""

import atexit
import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..basics.errors import LaunchError, describe_death
from . import processes

PACKAGE = Path(__file__).parents[1]
SCRIPT = Path(__file__).with_name("fork_server.py")
# The folders that the fork server imports from: it starts anew when a file in them is edited.
OF_COURSE = ("../coursekit", *(f"../coursekit/{room}" for room in ("answers", "kit", "labs")))
ROOMS = ("", "basics", "machines", "measuring", "ranks", *OF_COURSE)
# Forking is safe where torch's libraries start no threads on import. Elsewhere each rank is a
# fresh interpreter, which takes seconds instead of milliseconds.
START_METHOD = "fork" if sys.platform == "linux" else "spawn"
# macOS may lose an open file that is on its way to a process and open nowhere else (see ACKNOWLEDGE
# in Python's multiprocessing.reduction), so copies stay open until the rank has been forked.
KEEPS_COPIES = sys.platform != "linux"
LOOK_SECONDS = 0.25  # between two checks whether the server still lives
# Without a launch, until the server exits and frees its memory (200 MB); the next launch then takes
# a second more.
IDLE_SECONDS = 120.0
EARLIER_SECONDS = 20.0  # so much earlier it counts as gone, as it must not exit during a request
LEAVE_SECONDS = 2.0  # for the server to end its ranks, once the notebook has hung up
AGAIN = "run the cell again"
LOOPBACK = {"linux": "lo", "darwin": "lo0"}.get(sys.platform, "lo")
ENVIRON = {
    "OMP_NUM_THREADS": "1",  # one thread per rank, because ranks share the cores
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
        self.used = time.monotonic()
        self.is_ready = False
        self.has_preloaded = False
        self.owed = 0  # expected lines: `exited` for each rank, `killed` for each request to kill
        self.asked = self.forked = 0  # ranks requested, and requests answered
        self.under_way: dict[int, list[int]] = {}  # {number of a request: copies of its files}
        self.scratch = Path(tempfile.mkdtemp(prefix="launch-"))
        try:
            self.control, self.process = self.start()
        except BaseException:
            shutil.rmtree(self.scratch, ignore_errors=True)
            raise
        self.unread = b""  # the start of a line whose end has not arrived yet
        self.identity = identity_of(self.control)

    def start(self):
        """Start the server; return the control socket and the process at its other end."""
        ours, theirs = socket.socketpair()
        with theirs, (self.scratch / "server.log").open("wb") as log:
            arguments = str(theirs.fileno()), self.scratch, self.method, str(IDLE_SECONDS)
            process = subprocess.Popen(
                [sys.executable, SCRIPT, *arguments],
                pass_fds=[theirs.fileno()],
                env=os.environ | ENVIRON | self.own_environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the stop button signals the notebook's group only
            )
        return ours, process

    def own_environ(self) -> dict[str, str]:
        """Return variables that mark the server's processes and name torch's compiler cache.

        Torch would put this cache into the temporary folder of all users, where others can predict
        its name.
        """
        own = {"PEDAGOGY_SCRATCH": str(self.scratch)}
        if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
            own["TORCHINDUCTOR_CACHE_DIR"] = str(self.scratch / "inductor")
        return own

    def usable(self) -> bool:
        """Return whether the server is ours, will stay alive, and has imported current sources."""
        is_ours = self.is_open() and self.owner == os.getpid() and self.process.poll() is None
        is_awake = time.monotonic() - self.used < IDLE_SECONDS - EARLIER_SECONDS
        current = self.scratch.is_dir() and self.sources == state_of_sources()
        return is_ours and is_awake and current

    def is_open(self) -> bool:
        """Return whether the descriptor is still the socket's: the learner may have closed it."""
        return identity_of(self.control) == self.identity

    def await_ready(self, meanwhile=lambda: None):
        """Wait until the server has imported torch; raise LaunchError if it could not.

        meanwhile  a function that is called a few times a second
        """
        try:
            while not self.is_ready:
                if has_come(self.control, LOOK_SECONDS):
                    self.is_ready = "ready" in self.read_lines()
                self.keep_awake()
                meanwhile()
        except KeyboardInterrupt:
            self.close()  # `ready` may have been read and lost, so the next launch needs a new one
            raise

    def keep_awake(self):
        """Let the server continue if a signal has stopped it, because nothing else will."""
        if processes.state_of(self.process.pid) == processes.STOPPED:
            self.process.send_signal(signal.SIGCONT)

    def raise_end_error(self):
        """Raise LaunchError, because the server has closed its side of the socket."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        raise LaunchError(f"the process that starts ranks {self.its_end()}; {AGAIN}")

    def its_end(self) -> str:
        if (self.process.returncode or 0) < 0:
            return describe_death(-self.process.returncode)
        log = self.scratch / "server.log"
        said = log.read_text(errors="replace").strip() if log.exists() else ""
        return f"has ended ({said.splitlines()[-1]})" if said else "has ended"

    def read_lines(self) -> list[str]:
        try:
            data = self.control.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.raise_end_error()
        *lines, self.unread = (self.unread + data).split(b"\n")
        return [line.decode() for line in lines]

    def hear(self) -> list[list]:
        """Return the server's lines since the last call, as lists of words.

        The number of the rank is added to `forked` and `refused`, because a launch may end, and the
        next one begin, before the server sends them.
        """
        lines = [line.split() for line in self.read_lines()]
        for words in lines:
            if words[0] == "broken":
                why = " ".join(words[1:])
                raise LaunchError(f"the process that starts ranks has failed ({why}); {AGAIN}")
            if words[0] in ("forked", "refused"):
                self.forked += 1
                close_all(self.under_way.pop(self.forked, ()))
                words.append(self.forked)
            if words[0] != "forked":
                self.owed -= 1
        return lines

    def new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.scratch))

    def fork(self, channel_fd, output_fd, alone=False) -> int:
        """Request a rank; return its number among all that this server was asked for.

        alone  put it in the network of this server's ranks alone, where the system allows one
        """
        self.owed += 1
        self.asked += 1
        files = [channel_fd, output_fd]
        if KEEPS_COPIES:
            self.under_way[self.asked] = list(map(os.dup, files))
        try:
            socket.send_fds(self.control, [b"A" if alone else b"F"], files)
        except (BrokenPipeError, ConnectionResetError):
            self.raise_end_error()
        return self.asked

    def preload(self):
        """Make the server import what ranks may need, before it forks more of them."""
        if not self.has_preloaded:
            self.has_preloaded = True
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.control.sendall(b"P")

    def kill_ranks(self):
        self.owed += 1
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.control.sendall(b"K")

    def close(self):
        """Close the connection, so that the server kills its ranks and exits."""
        if self.owner != os.getpid():
            return
        if not self.is_open():
            self.control.detach()  # its number may be another file's by now
        with contextlib.suppress(LaunchError, OSError, ValueError):  # it is closed already
            while self.owed and has_come(self.control, 0):
                self.hear()
        self.control.close()
        close_all(fd for files in self.under_way.values() for fd in files)
        if not self.owed:
            self.process.kill()  # it has no rank to end, and may be busy importing
        self.leave()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def leave(self):
        """Wait until the server has exited, and kill its ranks if it has not done so."""
        try:
            self.process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.returncode:
            processes.kill_marked(str(self.scratch))


def identity_of(connection) -> tuple[int, int] | None:
    """Return the device and inode of the file behind a socket's number; None if there is none."""
    try:
        stat = os.fstat(connection.fileno())
    except (OSError, ValueError):
        return None
    return stat.st_dev, stat.st_ino


def has_come(connection, seconds) -> bool:
    """Return whether there is something to read, at once or within `seconds`."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def close_all(files):
    for fd in files:
        os.close(fd)


def state_of_sources() -> list[tuple[str, int]]:
    """Return the files that the fork server may import, with the time of each one's last change."""
    found = []
    for folder in filter(os.path.isdir, (PACKAGE / room for room in ROOMS)):
        with os.scandir(folder) as files:
            found += [(f.path, f.stat().st_mtime_ns) for f in files if f.name.endswith(".py")]
    return sorted(found)


_server: Server | None = None


def ensure_server() -> Server:
    """Return the one fork server of this process, which starts when there is no usable one."""
    global _server
    if _server is None or not _server.usable():
        if _server is not None:
            _server.close()
        _server = Server()
    _server.used = time.monotonic()
    return _server


def take(server: Server):
    """Use this server for ranks, instead of one that the first launch would start."""
    global _server
    _server = server


def warm_up():
    """Start the server without waiting for it."""
    with contextlib.suppress(LaunchError, OSError):  # the first launch will report it
        ensure_server()


@atexit.register
def close_server():
    global _server
    if _server is not None:
        _server.close()
        _server = None


def leave_it_to_the_parent():
    """Close the socket in a child that the learner forks, as its copy keeps the server alive."""
    if _server is not None:
        _server.control.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=leave_it_to_the_parent)

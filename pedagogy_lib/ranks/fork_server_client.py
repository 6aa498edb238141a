"""The notebook's side of the fork server: start it once, ask it for ranks, hear who has ended."""

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
# What the fork server imports from: it starts anew when one of these files is edited.
OF_COURSE = ("../coursekit", "../coursekit/kit", "../coursekit/labs")
ROOMS = ("", "basics", "machines", "measuring", "ranks", *OF_COURSE)
# Forking is safe where torch's libraries start no threads on import. Elsewhere each rank is a
# fresh interpreter, which takes seconds instead of milliseconds.
START_METHOD = "fork" if sys.platform == "linux" else "spawn"
# macOS may lose an open file that is under way to a process and open nowhere else, as Python's own
# multiprocessing.reduction knows (ACKNOWLEDGE): copies stay open until the rank has been forked.
KEEPS_COPIES = sys.platform != "linux"
LOOK_SECONDS = 0.25  # between two looks at whether it still lives
# Without a launch, until it gives its memory back (200 MB); the next launch then takes a second
# more.
IDLE_SECONDS = 120.0
EARLIER_SECONDS = 20.0  # by which it counts as gone here: it must not leave while it is asked
LEAVE_SECONDS = 2.0  # for it to end its ranks, once the notebook has hung up
AGAIN = "run the cell again"
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
        self.used = time.monotonic()
        self.is_ready = False
        self.has_preloaded = False
        self.owed = 0  # lines still to come: `exited` for each rank, `killed` for each wish to kill
        self.asked = self.forked = 0  # ranks that were wished for, and that it has answered for
        self.under_way: dict[int, list[int]] = {}  # {which wish: copies of the files sent with it}
        self.scratch = Path(tempfile.mkdtemp(prefix="launch-"))
        try:
            self.control, self.process = self.start()
        except BaseException:
            shutil.rmtree(self.scratch, ignore_errors=True)
            raise
        self.unread = b""  # the start of a line whose end has not come yet
        self.identity = identity_of(self.control)

    def start(self):
        """The control socket, and the process at its other end."""
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
        """Variables that mark its processes, and name a folder for the files of torch's compiler.

        Torch would put these into the temporary folder of all users, where others can foresee the
        folder's name.
        """
        own = {"PEDAGOGY_SCRATCH": str(self.scratch)}
        if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
            own["TORCHINDUCTOR_CACHE_DIR"] = str(self.scratch / "inductor")
        return own

    def usable(self) -> bool:
        """Whether it lives and will stay, is ours, and has imported this package as it is now."""
        is_ours = self.is_open() and self.owner == os.getpid() and self.process.poll() is None
        is_awake = time.monotonic() - self.used < IDLE_SECONDS - EARLIER_SECONDS
        current = self.scratch.is_dir() and self.sources == state_of_sources()
        return is_ours and is_awake and current

    def is_open(self) -> bool:
        """Whether the socket's number is still the socket's: the learner may have closed it."""
        return identity_of(self.control) == self.identity

    def await_ready(self, meanwhile=lambda: None):
        """Wait until torch is imported there; raises LaunchError if it could not be.

        meanwhile  called a few times a second
        """
        try:
            while not self.is_ready:
                if has_come(self.control, LOOK_SECONDS):
                    self.is_ready = "ready" in self.read_lines()
                self.keep_awake()
                meanwhile()
        except KeyboardInterrupt:
            self.close()  # that line may have been read and lost: the next launch starts anew
            raise

    def keep_awake(self):
        """Let it continue if a signal has stopped it: nobody else can."""
        if processes.state_of(self.process.pid) == processes.STOPPED:
            self.process.send_signal(signal.SIGCONT)

    def raise_end_error(self):
        """Raise LaunchError, as it has closed its side of the socket."""
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
        """What it has said since it was last heard, as lists of words.

        `forked` and `refused` get the number of the rank in addition: a launch may end, and the
        next one begin, before the server has come to say it.
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
        """Wish for a rank; returns its number among all that this server has forked.

        alone  in the network that only ranks of this server are in, where the system allows one
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
        """Have it import what ranks may need, before it forks more of them."""
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
        """Wait until it has ended, and end its ranks if it has not done so."""
        try:
            self.process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.returncode:
            processes.kill_marked(str(self.scratch))


def identity_of(connection) -> tuple[int, int] | None:
    """What the kernel calls the file behind a socket's number; None if there is none."""
    try:
        stat = os.fstat(connection.fileno())
    except (OSError, ValueError):
        return None
    return stat.st_dev, stat.st_ino


def has_come(connection, seconds) -> bool:
    """Whether there is something to read, at once or within that time."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def close_all(files):
    for fd in files:
        os.close(fd)


def state_of_sources() -> list[tuple[str, int]]:
    """Which files the fork server may import, and when each was last changed."""
    found = []
    for folder in filter(os.path.isdir, (PACKAGE / room for room in ROOMS)):
        with os.scandir(folder) as files:
            found += [(f.path, f.stat().st_mtime_ns) for f in files if f.name.endswith(".py")]
    return sorted(found)


_server: Server | None = None


def ensure_server() -> Server:
    """The one fork server of this process, started on first use."""
    global _server
    if _server is None or not _server.usable():
        if _server is not None:
            _server.close()
        _server = Server()
    _server.used = time.monotonic()
    return _server


def take(server: Server):
    """Ask this one for ranks, and not one that the first launch would start."""
    global _server
    _server = server


def warm_up():
    """Start the server without waiting for it."""
    with contextlib.suppress(LaunchError, OSError):  # the first launch will say it
        ensure_server()


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

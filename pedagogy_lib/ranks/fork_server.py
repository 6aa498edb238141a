"""The process that starts, watches and ends the ranks of every launch.

It runs as a separate script (`python fork_server.py CONTROL_FD SCRATCH_DIR METHOD IDLE_SECONDS`),
imports torch and this package once, and forks a rank in a few milliseconds whenever the notebook
asks. It imports no lab, so that a rank always reads the newest version of what a learner writes.

The notebook writes one byte per request to the control socket: F (fork a rank, whose channel and
output come along as two file descriptors), A (the same, in a network that only these ranks share,
where the system allows one), K (kill every rank) or P (import at once the modules that are
otherwise imported when idle, because the next launch needs them or the ranks just killed had to
import them). The server answers in lines: `ready`, `forked PID` or `refused ERRNO`,
`exited PID STATUS`, `killed`, and `broken WHY` if it fails itself.
When the socket closes, the notebook has gone, so the server kills every rank with all its
descendants, removes the scratch directory and exits. It also exits, and frees its memory, when it
has had no rank and no request for IDLE_SECONDS.
"""

import contextlib
import ctypes
import errno
import gc
import importlib.util
import os
import pickle
import select
import shutil
import signal
import socket
import sys

IMPORT_AFTER_SECONDS = 1.0  # without a request; the server then imports what ranks may need
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def become_rank(channel_fd, output_fd):
    """Turn this process into a rank; never return."""
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    os.close(output_fd)
    channel = socket.socket(fileno=channel_fd)
    receive_frame = importlib.import_module("pedagogy_lib.ranks.messages").receive_frame
    setup = pickle.loads(receive_frame(channel))
    os.environ.clear()
    os.environ.update(setup["environ"])
    sys.path[:] = setup["sys_path"]
    importlib.import_module("pedagogy_lib.ranks.rank").main(channel, setup)


def die_with_parent(parent_pid):
    """Make the kernel kill this process when the fork server dies (only on Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:
            os._exit(1)


def fork_rank(method, server_fds, channel_fd, output_fd, network=None):
    """Fork a process that becomes a rank; return its id, in this process alone.

    method      "fork", or "spawn" for a fresh interpreter
    server_fds  the server's own files, which the rank closes
    channel_fd  the connection of the rank to the notebook; output_fd: its stdout and stderr
    network     the network that the rank enters, or None
    """
    server_pid = os.getpid()
    pid = os.fork()
    if pid:
        os.close(channel_fd)
        os.close(output_fd)
        return pid
    try:
        os.setsid()  # its own group: killing it also ends the processes the rank has started
        die_with_parent(server_pid)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in server_fds:
            os.close(fd)
        if network is not None:
            network.enter()
        if method == "spawn":
            os.set_inheritable(channel_fd, True)
            os.set_inheritable(output_fd, True)
            numbers = (str(channel_fd), str(output_fd))
            os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "rank", *numbers])
        become_rank(channel_fd, output_fd)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


class ForkServer:
    """A server that forks ranks, reports their exits and leaves none behind; see the module."""

    def __init__(self, control_fd, scratch, method, idle_seconds, idle_work=()):
        self.control = socket.socket(fileno=control_fd)
        self.scratch, self.method, self.idle_seconds = scratch, method, idle_seconds
        self.idle_work = list(idle_work)  # modules to import when idle
        # Programs inherit the signals that a notebook blocks, so unblock all of them.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self.alive = set()
        self.network = None  # shared by the ranks of requests A, from the first of these on
        self.wake_r, wake_w = os.pipe()
        os.set_blocking(wake_w, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        adopt_orphans()
        self.fds = (control_fd, self.wake_r, wake_w)

    def serve(self):
        """Answer the notebook's requests until it goes away; then end every process."""
        try:
            self.say("ready")
            while self.wait() and self.answer():
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass  # the notebook has gone
        except Exception as error:
            with contextlib.suppress(OSError):
                self.say(f"broken {type(error).__name__}: {error}".replace("\n", " "))
        finally:
            self.kill_all()
            self.bury()
            shutil.rmtree(self.scratch, ignore_errors=True)

    def say(self, line):
        self.control.sendall(line.encode() + b"\n")

    def wait(self) -> bool:
        """Wait for a request, reporting ranks that exit and importing modules when idle.

        Return False if there was nothing to do for so long that the server should exit.
        """
        while True:
            readable, _, _ = select.select([self.control, self.wake_r], [], [], self.patience())
            if self.wake_r in readable:
                os.read(self.wake_r, 4096)
                self.reap()
            if self.control in readable:
                return True
            if not readable and not self.idle_work:
                return False
            if not readable:
                self.do_idle_work()

    def patience(self) -> float | None:
        """Return the seconds to wait for a request or a rank's exit; None if a rank is alive."""
        if self.alive:
            return None
        return IMPORT_AFTER_SECONDS if self.idle_work else self.idle_seconds

    def do_idle_work(self):
        with frozen_imports():
            while self.idle_work:
                with contextlib.suppress(Exception):  # a rank that needs it will report the error
                    importlib.import_module(self.idle_work.pop(0))

    def answer(self):
        wish, fds, _, _ = socket.recv_fds(self.control, 1, 2)
        if wish in (b"F", b"A"):
            self.fork(*fds, network=self.own_network() if wish == b"A" else None)
        elif wish == b"K":
            self.kill_all()
            self.say("killed")
        elif wish == b"P":
            self.reap(0)
            self.do_idle_work()
        return bool(wish)

    def own_network(self):
        """Return one network for all ranks, or None if the system allows none (see the doctor)."""
        if self.network is None and sys.platform == "linux":
            namespaces = importlib.import_module("pedagogy_lib.machines.namespaces")
            try:
                self.network = namespaces.OwnNetwork()
            except OSError:
                self.network = False
        return self.network or None

    def fork(self, *fds, network=None):
        if len(fds) < 2:  # the kernel drops descriptors for which this process has no room
            self.refuse(errno.EMFILE, fds)
            return
        try:
            pid = fork_rank(self.method, self.fds, *fds, network)
        except OSError as error:
            self.refuse(error.errno, fds)
            return
        self.alive.add(pid)
        self.say(f"forked {pid}")

    def refuse(self, number, fds):
        for fd in fds:
            os.close(fd)
        self.say(f"refused {number}")

    def reap(self, flags=os.WNOHANG):
        """Report every rank that has exited, and kill the processes that it left behind."""
        for pid in sorted(self.alive):
            ended, status = os.waitpid(pid, flags)
            if ended:
                self.alive.discard(pid)
                kill_group(pid)
                self.say(f"exited {pid} {status}")
        self.kill_orphans()

    def kill_all(self):
        for pid in self.alive:
            # A rank that was only just forked may not lead its group yet, so kill both.
            os.kill(pid, signal.SIGKILL)
            kill_group(pid)
        self.kill_orphans()

    def bury(self):
        """Wait for every rank after `kill_all`, and kill the processes that each left behind."""
        while self.alive:
            pid, _ = os.wait()
            self.alive.discard(pid)
            self.kill_orphans()

    def kill_orphans(self):
        """Kill processes whose rank has exited, which made them children of this process."""
        while orphans := set(children()) - self.alive:
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def adopt_orphans():
    """Adopt processes that ranks leave behind, which init would do otherwise (only on Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """Return the PIDs of the children of this single-threaded process; none outside Linux."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def kill_group(pid):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


@contextlib.contextmanager
def frozen_imports():
    """Keep the garbage collector away from loaded objects, because ranks share their pages."""
    gc.disable()  # nothing that is imported becomes garbage
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def import_packages(folder):
    """Import this package and the course's, and no others of these names.

    Their folder leaves `sys.path` afterwards, because files in it must not hide a library.
    """
    sys.path.insert(0, os.path.dirname(os.path.dirname(folder)))
    importlib.import_module("pedagogy_lib")
    if importlib.util.find_spec("coursekit"):
        importlib.import_module("coursekit")
    del sys.path[0]


def main():
    if sys.argv[1] == "rank":  # a rank in a fresh interpreter (start method "spawn")
        become_rank(int(sys.argv[2]), int(sys.argv[3]))
    control_fd, scratch, method, idle_seconds = sys.argv[1:]
    idle_work = ()
    if method == "fork":
        with frozen_imports():
            idle_work = preload()
    ForkServer(int(control_fd), scratch, method, float(idle_seconds), idle_work).serve()
    os._exit(0)  # Python's own exit would spend a third of a second on freeing torch's objects


def preload() -> tuple[str, ...]:
    """Import the modules that every rank needs; return those to import when idle."""
    modules = importlib.import_module("pedagogy_lib.ranks.preload_modules")
    with_course = ("coursekit.kit",) if "coursekit" in sys.modules else ()
    for name in modules.PRELOAD + with_course:
        importlib.import_module(name)
    sys.modules["sysconfig"].get_paths()  # reads a large table on its first call
    return modules.PRELOAD_WHEN_IDLE


if __name__ == "__main__":
    import_packages(sys.path.pop(0))
    main()

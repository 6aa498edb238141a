"""What the kernel tells about other processes: nothing where there is no /proc."""

import contextlib
import os
import signal
from pathlib import Path

# States: by a signal; on a processor or waiting for one, and waiting for a disk.
STOPPED, WORKING = "T", ("R", "D")
ARE_SEEN = os.path.exists("/proc/self/stat")
ROUNDS = 20  # of searching, as processes that are being killed may start others


def state_of(pid) -> str:
    """The letter of its state, as `ps` shows it; empty if it is not known."""
    fields = stat_of(pid)
    return fields[0] if fields else ""


def seconds_of(pid) -> float:
    """Processor seconds that it has used so far; 0 if that is not known."""
    fields = stat_of(pid)
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def stat_of(pid) -> list[str]:
    """What follows the name in /proc/PID/stat."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def kill_marked(text: str):
    """End every process of this user that was started with `text` in its environment."""
    for _ in range(ROUNDS):
        found = find_processes(os.fsencode(text))
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def find_processes(text: bytes) -> list[int]:
    """Processes with `text` in their environment. One that has ended has no environment."""
    pids = [int(name) for name in names_in_proc() if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and text in environment_of(pid)]


def names_in_proc() -> list[str]:
    return os.listdir("/proc") if os.path.isdir("/proc") else []


def environment_of(pid) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or belongs to somebody else
        return b""

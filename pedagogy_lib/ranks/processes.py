"""The kernel's information on other processes, which is empty where there is no /proc."""

import contextlib
import os
import signal
from pathlib import Path

# States: stopped by a signal; on a processor or waiting for one, and waiting for a disk.
STOPPED, WORKING = "T", ("R", "D")
ARE_SEEN = os.path.exists("/proc/self/stat")
ROUNDS = 20  # of searching, because processes that are being killed may start others


def state_of(pid) -> str:
    """Return the letter of a process's state, as `ps` shows it; empty if it is not known."""
    fields = stat_of(pid)
    return fields[0] if fields else ""


def seconds_of(pid) -> float:
    """Return the processor seconds that a process has used so far; 0 if that is not known."""
    fields = stat_of(pid)
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def stat_of(pid) -> list[str]:
    """Return the fields after the name in /proc/PID/stat; none if it cannot be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def kill_marked(text: str):
    """Kill every process of this user that was started with `text` in its environment."""
    for _ in range(ROUNDS):
        found = find_processes(os.fsencode(text))
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def find_processes(text: bytes) -> list[int]:
    """Return the PIDs of other processes with `text` in their environment, if still alive."""
    pids = [int(name) for name in names_in_proc() if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and text in environment_of(pid)]


def names_in_proc() -> list[str]:
    return os.listdir("/proc") if os.path.isdir("/proc") else []


def environment_of(pid) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return b""

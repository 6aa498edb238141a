"""The processes of a sandbox, seen from outside: their memory, and their end."""

import contextlib
import signal
import time

import psutil

GONE = (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied)
END_SECONDS = 10.0
PAUSE_SECONDS = 0.005


def list_descendants(pid: int) -> list[psutil.Process]:
    """Return all processes that a process started, and all that these started."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except GONE:
        return []


def memory_bytes(processes, limit: int) -> int:
    """Return the bytes of all processes; shared memory counts once if that decides anything."""
    together = sum(resident_bytes(process) for process in processes)
    return together if together < limit else sum(map(proportional_bytes, processes))


def resident_bytes(process) -> int:
    with contextlib.suppress(*GONE):
        return process.memory_info().rss
    return 0


def proportional_bytes(process) -> int:
    """Return a process's bytes, in which memory shared by n processes counts 1/n."""
    with contextlib.suppress(*GONE):
        return process.memory_full_info().pss
    return resident_bytes(process)


def end(process):
    """Kill a started process with all its descendants, and wait until all have gone.

    process  a subprocess.Popen
    """
    until = time.monotonic() + END_SECONDS
    left = list_descendants(process.pid)
    while left and time.monotonic() < until:
        for one in left:
            with contextlib.suppress(*GONE):
                one.send_signal(signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)
        left = [one for one in {*left, *list_descendants(process.pid)} if is_running(one)]
    process.kill()
    process.wait()


def is_running(process) -> bool:
    with contextlib.suppress(*GONE):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False

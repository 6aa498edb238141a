"""The load of a class on one machine: memory of a notebook with its ranks, launches at once."""

import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from pedagogy_lib.basics.errors import LaunchError
from pedagogy_lib.ranks.launcher import launch

PROGRAM = """
import sys
from coursekit.class_load import median_seconds
launches, world_size = map(int, sys.argv[1:])
median_seconds(1, world_size)  # the first one starts the server of ranks
print("ready", flush=True)
sys.stdin.readline()
print(median_seconds(launches, world_size), flush=True)
"""


def median_seconds(launches: int, world_size: int) -> float:
    """Return the median duration of successive launches of a function that does nothing."""
    times = []
    for _ in range(launches):
        began = time.perf_counter()
        launch(lambda: None, world_size=world_size, device="cpu")
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def seconds_at_once(programs: int, launches: int, world_size: int = 4) -> float:
    """Return `median_seconds` for the slowest of several programs that launch at the same time.

    Raises  LaunchError if one of them ends too early
    """
    command = [sys.executable, "-c", PROGRAM, str(launches), str(world_size)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
               for _ in range(programs)]  # fmt: skip
    try:
        if [program.stdout.readline() for program in started] != ["ready\n"] * programs:
            raise LaunchError(f"not all of {programs} programs could start ranks at the same time")
        for program in started:
            program.stdin.write("\n")
            program.stdin.flush()
        return max(float(program.stdout.readline()) for program in started)
    except ValueError:
        raise LaunchError(f"one of {programs} programs ended while all launched") from None
    finally:
        for program in started:
            end(program)


def end(program: subprocess.Popen):
    """Let a program clean up after its ranks; kill it if it hangs."""
    try:
        program.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        program.kill()
        program.communicate()


def notebook_bytes(world_size: int = 4) -> int | None:
    """Return the private bytes of this process, its rank server and ranks; None if unknown.

    Memory that processes share, such as PyTorch's code, is in no process's private memory.
    """
    if private_bytes(os.getpid()) is None:
        return None
    run = launch(lambda: private_bytes(os.getpid()), world_size=world_size, device="cpu")
    here = [os.getpid(), *children_of(os.getpid())]
    return sum(run.values) + sum(private_bytes(pid) or 0 for pid in here)


def private_bytes(pid: int) -> int | None:
    try:
        told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # no Linux, or it has ended
        return None
    return 1024 * sum(map(int, re.findall(r"^Private_(?:Clean|Dirty): +(\d+)", told, re.M)))


def children_of(pid: int) -> list[int]:
    """Return the children that run now; a launch has ended its ranks, so these are servers."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in lists for child in file.read_text().split()]


def available_bytes() -> int | None:
    """Return the system's figure for memory that programs can still take without swapping."""
    info = Path("/proc/meminfo")
    found = re.search(r"^MemAvailable: +(\d+)", info.read_text(), re.M) if info.exists() else None
    return 1024 * int(found[1]) if found else None

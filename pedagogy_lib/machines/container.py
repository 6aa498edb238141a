"""The memory and cores that a container, or a batch system, leaves to its programs.

Source  memory.max and cpu.max of Linux' admin-guide/cgroup-v2; memory.limit_in_bytes and
        cpu.cfs_quota_us of cgroup-v1
"""

import math
import os
import shutil
from pathlib import Path

GROUP = Path("/sys/fs/cgroup")
SHARED = Path("/dev/shm")


def memory_bytes() -> tuple[int, int]:
    """Return the bytes of memory that programs here may use, and those that the computer has."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [number_in("memory.max"), number_in("memory/memory.limit_in_bytes")]
    return min([whole, *filter(None, limits)]), whole


def cores() -> tuple[int, int]:
    """Return the cores that programs here may use at a time, and those that the computer has."""
    whole = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else whole
    return max(1, min(usable, math.ceil(cores_granted() or usable))), whole


def cores_granted() -> float | None:
    """Return the limit on processor time of all programs here, in cores; None without a limit."""
    words = text_of("cpu.max").split()
    if len(words) == 2 and words[0].isdigit():
        return int(words[0]) / int(words[1])
    quota, period = number_in("cpu/cpu.cfs_quota_us"), number_in("cpu/cpu.cfs_period_us")
    return quota / period if quota and period else None


def read_shm_bytes() -> int | None:
    """Return the bytes of the memory in which processes share files; None if there is none."""
    try:
        return shutil.disk_usage(SHARED).total
    except OSError:
        return None


def number_in(name) -> int | None:
    """Return the number in a file of this control group; None if it is missing, "max" or -1."""
    text = text_of(name)
    return int(text) if text.isdigit() else None


def text_of(name) -> str:
    try:
        return (GROUP / name).read_text().strip()
    except OSError:
        return ""

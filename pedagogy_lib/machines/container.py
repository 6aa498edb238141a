"""What a container, or a batch system, leaves to its programs of a computer's memory and cores.

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
    """(what programs here may take, what the computer has)"""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [number_in("memory.max"), number_in("memory/memory.limit_in_bytes")]
    return min([whole, *filter(None, limits)]), whole


def cores() -> tuple[int, int]:
    """(what programs here may use at a time, what the computer has)"""
    whole = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else whole
    return max(1, min(usable, math.ceil(cores_granted() or usable))), whole


def cores_granted() -> float | None:
    """By the time on processors that all programs here may take together; None: no limit."""
    words = text_of("cpu.max").split()
    if len(words) == 2 and words[0].isdigit():
        return int(words[0]) / int(words[1])
    quota, period = number_in("cpu/cpu.cfs_quota_us"), number_in("cpu/cpu.cfs_period_us")
    return quota / period if quota and period else None


def read_shm_bytes() -> int | None:
    """The size of the memory in which processes share files; None where there is no such place."""
    try:
        return shutil.disk_usage(SHARED).total
    except OSError:
        return None


def number_in(name) -> int | None:
    """What a file of this control group says; None where there is none, or "max", or -1."""
    text = text_of(name)
    return int(text) if text.isdigit() else None


def text_of(name) -> str:
    try:
        return (GROUP / name).read_text().strip()
    except OSError:
        return ""

"""What some tests need and `make setup` does not bring: `@needs.mark("Chromium", "playwright")`.

Where it is missing, these tests are skipped, and the end of the run says for want of what, and
which command brings it. `--needing Chromium,walls` runs those tests alone that need one of these,
and stops if one of them is missing.
"""

import importlib.util
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from pedagogy_lib.basics.units import format_count

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
ROOT = Path(__file__).resolve().parents[2]
ZIZMOR = Path(sys.executable).with_name("zizmor")
WALLS, LINES = "walls", "skipped for want of"


class Need(NamedTuple):
    """missing: a function that says whether, or why, it cannot be had; brings: how to get it."""

    missing: Callable[[], object]
    brings: str


def machines() -> str:
    from pedagogy_lib.machines.network import try_machines

    return try_machines()


def netem() -> str:
    from pedagogy_lib.machines.amounts import Link
    from pedagogy_lib.machines.network import try_link

    return machines() or try_link(Link(latency_seconds=0.001))


def disk() -> bool:
    from pedagogy_lib import Disk

    there = Disk.here(0.1)
    if there:
        there.close()
    return there is None


def walls() -> bool:
    from walls_here import USABLE

    return not USABLE


def compiler() -> str:
    from helpers import load_solved_lab

    return load_solved_lab("compiled_fsdp2").why_no_compiler()


def without_compiler(function, *args):
    """Call a function in this process, which finds no compiler of C++ from here on."""
    os.environ.update(CXX="/nonexistent/g++", PATH="")
    return function(*args)


def python_of_all() -> bool:
    from classroom.sandbox import other_user

    return not_root() or not other_user.is_executable_by_all(Path(sys.executable))


def not_root() -> bool:
    return os.geteuid() != 0


def find_closed_folders() -> list[Path]:
    """Return the folders above the course that other users may not enter."""
    places = [path.stat() for path in ROOT.parents]
    return [path for path, state in zip(ROOT.parents, places) if not state.st_mode & 0o001]


def gpus(count):
    import torch

    return lambda: torch.cuda.device_count() < count


def programs(*names):
    return lambda: not all(map(shutil.which, names))


def extra(name, package=None) -> Need:
    """What tools/setup.py installs under a name, known by one of its packages."""
    package = package or name
    return Need(lambda: not importlib.util.find_spec(package), f"python3 tools/setup.py {name}")


KNOWN = {
    "Chromium": Need(lambda: not CHROMIUM, "sudo apt install chromium"),
    WALLS: Need(walls, "sudo apt install bubblewrap"),
    "a C++ compiler": Need(compiler, "sudo apt install g++, and Python's header files"),
    "node": Need(programs("node"), "sudo apt install nodejs"),
    "SLURM": Need(programs("slurmctld", "slurmd", "sbatch"), "sudo apt install slurm-wlm"),
    "ip": Need(programs("ip"), "sudo apt install iproute2"),
    "unshare": Need(programs("unshare"), "sudo apt install util-linux"),
    "setpriv": Need(programs("setpriv"), "sudo apt install util-linux"),
    "make": Need(programs("make"), "sudo apt install make"),
    "machines": Need(cache(machines), "make doctor says what closes user namespaces"),
    "netem": Need(cache(netem), "a kernel with sch_netem"),
    "a disk of one's own": Need(cache(disk), "make doctor says what closes user namespaces"),
    "root": Need(not_root, "run as root"),
    "root, and a Python open to all": Need(python_of_all, "run as root, with the system's Python"),
    "a folder open to all": Need(find_closed_folders, "a course in a folder that others may enter"),
    "a GPU": Need(gpus(1), "a CUDA GPU"),
    "two GPUs": Need(gpus(2), "a second CUDA GPU"),
    "playwright": extra("browser", "playwright"),
    "Sphinx": extra("book", "myst_nb"),
    "kubernetes-validate": extra("clusters", "kubernetes_validate"),
    "accelerate": extra("bench", "accelerate"),
    "zizmor": Need(lambda: not ZIZMOR.exists(), "python3 tools/setup.py workflows"),
    **{name: extra(name) for name in ("deepspeed", "torchft", "nbgrader", "transformers")},
}


def mark(*names):
    """Mark a test, or a module as its `pytestmark`, as one that needs these."""
    assert set(names) <= set(KNOWN), names
    return pytest.mark.needs(*names)


def skip(name, why=""):
    """Skip the running test for want of something, or of what only a trial can tell."""
    pytest.skip(reason_for(name) + (f" ({why})" if why else ""))


def reason_for(name) -> str:
    return f"{LINES} {name}: {KNOWN[name].brings}"


def find_missing(names) -> list[str]:
    return [name for name in names if is_missing(name)]


@cache
def is_missing(name) -> bool:
    return bool(KNOWN[name].missing())


def needs_of(item) -> list[str]:
    own = ["a GPU"] if "gpu" in item.keywords else []
    return own + [name for mark in item.iter_markers("needs") for name in mark.args]


def skip_without_their_needs(items):
    for item in items:
        for name in find_missing(needs_of(item))[:1]:
            item.add_marker(pytest.mark.skip(reason=reason_for(name)))


def keep_those_needing(names: str, config, items):
    """Keep the tests that need one of these; the session ends if one of these is missing."""
    wanted = names.split(",")
    if unknown := set(wanted) - set(KNOWN):
        raise pytest.UsageError(f"--needing: there is no {sorted(unknown)}; there are {[*KNOWN]}")
    if lacking := find_missing(wanted):
        told = "; ".join(f"{name}: {KNOWN[name].brings}" for name in lacking)
        raise pytest.UsageError(f"--needing: this machine lacks {told}")
    kept = [item for item in items if set(wanted) & set(needs_of(item))]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def tell(terminalreporter):
    """Print for want of what tests were skipped: a line for each, with the command."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ").partition(" (")[0]
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    wanted = {reason: count for reason, count in reasons.items() if reason.startswith(LINES)}
    if wanted:
        terminalreporter.section(LINES)
    for reason, count in sorted(wanted.items()):
        name, _, brings = reason.removeprefix(f"{LINES} ").partition(": ")
        terminalreporter.line(f"{name}: {format_count(count, 'test')}  ({brings})")

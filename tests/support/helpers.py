"""What several test files share: failures, patience, families of processes, other programs."""

import contextlib
import functools
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist

from pedagogy_lib import HangError, LaunchError, close, launch, relative_gap
from pedagogy_lib.ranks import fork_server_client

ROOT = Path(__file__).resolve().parents[2]
SLACK_SECONDS = 20.0  # what a busy machine may add to any duration

launch_on_cpu = functools.partial(launch, device="cpu")  # for what differs where there are GPUs


def load_solved_lab(name: str):
    """Return a lab with all its exercises solved."""
    from coursekit import labs  # tests of the bench alone have none

    path = ROOT / "solutions" / "labs" / f"{name}.py"
    return labs.Lab(name, path, path)


def my_rank():
    return dist.get_rank()


def failure(step, *args, timeout=60.0, **options) -> LaunchError:
    """The error of a launch. It comes in time, and the next launch works."""
    launch(my_rank, world_size=1)  # so that the clock does not see the fork server start
    began = time.perf_counter()
    with pytest.raises(LaunchError) as caught:
        launch_on_cpu(step, *args, timeout=timeout, **options)
    seconds = time.perf_counter() - began
    assert seconds < SLACK_SECONDS + timeout * isinstance(caught.value, HangError)
    assert launch(my_rank, world_size=2).values == [0, 1]
    return caught.value


def need_close(values, wanted, steps=1):
    """Fail with the first rank whose value is not `wanted` up to rounding, and by how much."""
    for rank, value in enumerate(values):
        if not close(value, wanted, steps):
            gap = relative_gap(value, wanted) if torch.is_tensor(value) else f"{value} != {wanted}"
            pytest.fail(f"rank {rank} has another value, by {gap} relative to the largest")


def wait_until(condition, seconds=SLACK_SECONDS) -> bool:
    """Whether `condition()` comes true in time."""
    deadline = time.perf_counter() + seconds
    while not (holds := condition()) and time.perf_counter() < deadline:
        time.sleep(0.02)
    return holds or condition()  # this process may have slept beyond the deadline


def holds_in_some_round(succeeds, rounds=8) -> bool:
    """Return whether a comparison of times holds in one of several rounds.

    Other programs can make any single round slow. Where the comparison is wrong, it holds in none.
    """
    return any(succeeds() for _ in range(rounds))


def seconds_until_done(block) -> list[float]:
    """How long after the first rank began a block each rank ended it (once each).

    No rank's noise makes this shorter than what the block has to take; `block.seconds` of a rank
    that began late can be.
    """
    first = min(start for ((start, _),) in block.spans)
    return [end - first for ((_, end),) in block.spans]


def family(pid) -> list[int]:
    """The process ids of all descendants of a process."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def alive(pids) -> list[int]:
    """Those that have not ended; an ended process stays a zombie where nobody reaps it."""
    return [pid for pid in pids if is_alive(pid)]


def is_alive(pid) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ranks_left() -> list[int]:
    """Processes below this process's fork server."""
    own = fork_server_client._server
    return alive(family(own.process.pid)) if own else []


def environment(**more) -> dict[str, str]:
    """The environment of a Python program that imports this checkout."""
    paths = [str(ROOT), str(ROOT / "tests" / "support" / "quick_end")]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    # A pipe gets each line at once, and not when the program ends.
    own = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    return os.environ | own | more


def start(command, folder: Path, **environ) -> subprocess.Popen:
    """Start a program in a session and a folder of its own; its scratch files lie there too."""
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(**{"TMPDIR": str(folder)} | environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def end(program: subprocess.Popen):
    """End a program with all its descendants, if it has not ended by itself."""
    for pid in [*family(program.pid), program.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    program.stdout.close()
    program.wait()


def scratch_left(folder: Path) -> list[Path]:
    """Scratch folders of launches whose TMPDIR is `folder`."""
    return list(folder.glob("launch-*"))


def list_leftovers(folder: Path, but: tuple[str, ...]) -> list[str]:
    """What stays there once all processes had the time to end, without names that begin so."""

    def list_names():
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith(but))

    wait_until(lambda: not list_names())
    return list_names()


def put_lab(folder: Path, monkeypatch, name: str, text: str, solution: str | None = None):
    """Make `folder` the course: a learner's lab in it, and perhaps our solution."""
    from coursekit import labs

    for path, content in {
        folder / "labs" / f"{name}.py": text,
        folder / "solutions" / "labs" / f"{name}.py": solution,
    }.items():
        if content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    monkeypatch.setattr(labs, "ROOT", folder)


def append_program(program):
    """A change of a lab: what stands at its end."""
    return lambda text: f"{text}\n\n{program}"


def replace_text(old, new):
    """A change of a lab: some text in it is another."""

    def change(text):
        assert text.count(old) == 1, old
        return text.replace(old, new)

    return change

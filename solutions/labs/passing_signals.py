# Built from chapters/ch04_failure_and_recovery/labs/passing_signals.py by `make build`.
"""What torchrun does with a signal: which ranks hear of it, what dies, and when.

python labs/passing_signals.py
"""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TIMEOUT = 120.0  # seconds until all ranks run, on a busy machine
LIFE = 60.0  # seconds after which a rank ends by itself
RANKS = 2


# ---- A rank ---------------------------------------------------------------------------------


def be_rank(folder, reads):
    """Run until killed, and note each signal; read samples through workers if `reads` says so.

    reads  "": no samples; "deaf": by workers that ignore SIGTERM; "plain": by workers that do not
    """
    path = Path(folder, os.environ["RANK"])

    def say(words):
        with open(path, "a") as file:
            file.write(f"{words}\n")

    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, _: say(signal.Signals(number).name))
    try:
        batches = samples(reads == "deaf") if reads else None
        say(f"runs as {os.getpid()}")
        until = time.monotonic() + LIFE
        while time.monotonic() < until:
            if batches is not None:
                next(batches)
            time.sleep(0.02)
    except Exception as error:
        say(f"fails: {type(error).__name__}: {error}")
        raise


def samples(deaf):
    """Return an iterator over batches, when all workers have handed out their first ones."""
    from resumable_data import Keys, read_ahead

    batches = iter(read_ahead(Keys(1), itertools.repeat([(0, 0)]), deaf=deaf))
    for _ in range(4):
        next(batches)
    return batches


# ---- Torchrun -------------------------------------------------------------------------------


class Torchrun:
    """torchrun with two ranks that note the signals they get; it is started at once.

    options  of torchrun
    reads    whether the ranks read samples through workers: see be_rank
    """

    def __init__(self, *options, reads=""):
        self.place = Path(tempfile.mkdtemp(prefix="signals-"))  # killed processes leave files there
        self.folder = self.place / "heard"
        self.folder.mkdir()
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                   f"--nproc-per-node={RANKS}", *options, __file__, self.folder, reads]  # fmt: skip
        self.agent = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                              "TMPDIR": str(self.place)},
        )  # fmt: skip

    def tell(self, number, grace):
        """Send a signal to the agent when all ranks run; wait until all has ended, or the grace.

        heard  what each rank has noted since then
        left   ranks that still run
        """
        wait_until(lambda: len(self.pids()) == RANKS, TIMEOUT)
        self.agent.send_signal(number)
        wait_until(lambda: self.agent.poll() is not None and not self.alive(), grace)
        self.left, self.heard = len(self.alive()), [lines[1:] for lines in self.read()]
        return self

    def read(self) -> list[list[str]]:
        return [path.read_text().splitlines() for path in sorted(self.folder.iterdir())]

    def pids(self) -> list[int]:
        return [int(lines[0].split()[-1]) for lines in self.read() if lines]

    def alive(self) -> list[int]:
        return [pid for pid in self.pids() if is_running(pid)]

    def close(self):
        """End all that is left."""
        for pid in [*self.alive(), *([self.agent.pid] if self.agent.poll() is None else [])]:
            os.kill(pid, signal.SIGKILL)
        self.agent.wait()
        shutil.rmtree(self.place, ignore_errors=True)


def is_running(pid) -> bool:
    """Return whether a process runs; on Linux, one that has ended but has a parent does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_so, seconds):
    until = time.monotonic() + seconds
    while not is_so() and time.monotonic() < until:
        time.sleep(0.02)


# ---- The program ----------------------------------------------------------------------------

USR1_TOO = "--signals-to-handle=SIGTERM,SIGUSR1"


def send_each(ways, grace=5.0) -> list[Torchrun]:
    """Start torchrun in several ways at once, then send each its signal: (number, options)."""
    started = [(number, Torchrun("--shutdown-timeout=1", *more)) for number, *more in ways]
    told = [run.tell(number, grace) for number, run in started]
    for run in told:
        run.close()
    return told


def main():
    if "RANK" in os.environ:
        be_rank(*sys.argv[1:])
        return
    ways = (signal.SIGTERM,), (signal.SIGUSR1,), (signal.SIGUSR1, USR1_TOO)
    for (number, *more), run in zip(ways, send_each(ways)):
        print(signal.Signals(number).name, *more, "- the ranks hear", run.heard,
              f"- left without an agent: {run.left}")  # fmt: skip


if __name__ == "__main__":
    main()

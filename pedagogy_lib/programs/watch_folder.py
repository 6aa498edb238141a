"""The folder through which the ranks of a watched program tell the process that started them.

Each rank writes files of its own, whole or not at all, so that ranks on several machines need
nothing but a folder that they share. A file named `traced` tells them to write traces.

    3.started  its process, machine and program
    3.beat     empty; changed whenever the rank has begun a collective or ended a step
    3.place    where it is, as an `IsAt`, each time that the file `where` asks for it
    3.failed   the error that it has raised, as a `FailureReport` whose time is the system's
    3.ended    the line where its program has left with sys.exit(), or None, once it has ended
    3.trace    pickled lists of events, one after another
    3.output   a pipe for its output, if the process that started it has made one
    3.stack    the stack as the interpreter writes it at a signal, if the rank cannot answer
"""

import contextlib
import os
import pickle
from pathlib import Path

QUESTION, TRACED = "where", "traced"
BEATS = (".started", ".beat", ".ended")


class WatchFolder:
    """The files of all ranks, as the process that started them reads them."""

    def __init__(self, path):
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)

    def begin_traces(self):
        (self.path / TRACED).touch()

    @property
    def is_traced(self) -> bool:
        return (self.path / TRACED).exists()

    def make_pipe(self, rank) -> int:
        """Make the pipe for a rank's output; return its end to read from, which never ends."""
        os.mkfifo(self.file(rank, "output"))
        return os.open(self.file(rank, "output"), os.O_RDWR)

    def ranks(self) -> list[int]:
        """Return the ranks whose program has started."""
        return sorted(int(path.stem) for path in self.path.glob("*.started"))

    def file(self, rank, kind) -> Path:
        return self.path / f"{rank}.{kind}"

    def read(self, rank, kind):
        """Return what a rank has written; None if there is no such file."""
        try:
            return pickle.loads(self.file(rank, kind).read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError):
            return None

    def write(self, rank, kind, value):
        """Write a file of a rank at once, so that nobody reads a part of it."""
        path = self.file(rank, kind)
        begun = path.with_suffix(f".{kind}-{os.getpid()}")
        begun.write_bytes(pickle.dumps(value))
        begun.replace(path)

    def has(self, rank, kind) -> bool:
        return self.file(rank, kind).exists()

    def ask(self) -> float:
        """Ask all ranks where they are; return the time of the question."""
        (self.path / QUESTION).write_text("")
        return os.stat(self.path / QUESTION).st_mtime

    def asked_at(self) -> float:
        """Return when the ranks were last asked where they are; 0 if never."""
        return time_of(self.path / QUESTION)

    def last_beat(self) -> float:
        """Return when a rank last began, went on or ended, by the system's clock; 0 if never."""
        beats = [
            *self.path.glob("*.started"),
            *self.path.glob("*.beat"),
            *self.path.glob("*.ended"),
        ]
        return max(map(time_of, beats), default=0.0)


def time_of(path) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def touch(path):
    with contextlib.suppress(OSError):  # the folder has gone with the run
        Path(path).touch()

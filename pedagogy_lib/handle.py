"""One rank, seen from the notebook."""

import contextlib
import os
import pickle
import signal
import socket
import struct
import time
from pathlib import Path

import cloudpickle

from .errors import LaunchError, RankError, describe_death
from .output import Output
from .stack import UNKNOWN, is_library, place_of, steps_of_dump

DEAD_OF_ABORT = signal.SIGABRT
LOST_CONNECTION = "gloo/transport"  # in Gloo's messages about a neighbour that has gone


class RankHandle:
    """The channel to one rank, its output, and what is known of its end."""

    def __init__(self, rank, server, noun, dump: Path):
        self.rank, self.dump = rank, dump
        self.pid = None
        self.has_joined = False  # the process group: only then does its time count
        self.report = None  # {"value": bytes, "blocks": …} once the rank has returned
        self.error = None  # {"what", "exception", "place", "at"} once it has raised
        self.status = None  # as of os.waitpid, once it has ended
        self.place = None  # its answer to ask_where()
        self.died_at = 0.0
        self.output = Output(rank, noun)
        self.buffer = bytearray()
        self.output_is_open = True
        self.connection, theirs = socket.socketpair()
        self.output_fd, their_output = os.pipe()
        with theirs:
            self.number = server.fork(theirs.fileno(), their_output)
        os.close(their_output)

    @property
    def has_failed(self) -> bool:
        return self.error is not None or (self.status is not None and self.report is None)

    @property
    def is_gone(self) -> bool:
        """Ended, and everything it printed has been read."""
        return self.status is not None and not self.output_is_open

    @property
    def has_lost_a_neighbour(self) -> bool:
        """Whether it raised only because the connection to another rank has gone."""
        return self.error is not None and LOST_CONNECTION in self.error["what"]

    def blame(self) -> tuple:
        """Sort key: the rank whose failure came first, and so caused the others.

        The failures that a rank causes may be heard before its own: when it is killed, or when it
        leaves the group on its way out. An abort may be the way in which Gloo reports that.
        """
        if self.error:
            return (3 if self.has_lost_a_neighbour else 1, self.error["at"])
        aborted = self.status & 0x7F == DEAD_OF_ABORT
        return (2 if aborted else 0, self.died_at)

    def last_place(self):
        """Where it crashed; None if it was killed or left by itself, so that no stack is there."""
        text = self.dump.read_text() if self.dump.exists() else ""
        place = place_of(steps_of_dump(text))
        return None if place is None or is_library(place.filename) else place

    def failure(self) -> tuple:
        """What went wrong, and where: the same for ranks that made the same mistake."""
        return (self.error["what"], self.error["place"]) if self.error else (self.rank,)

    def as_exception(self, others=(), who="") -> RankError:
        """Its failure; `others` are the handles of ranks that failed later."""
        lost = {r.rank: r.error["place"] for r in others if r.has_lost_a_neighbour}
        own = {r.rank: r.failure() for r in others if r.error and not r.has_lost_a_neighbour}
        if self.error is None:
            words = self.output.last_lines(3)
            what = describe_death(self.status) + "".join(f"\n  | {line}" for line in words)
            return RankError(self.rank, what, None, self.last_place(), lost, own, who)
        pickled = self.error["exception"]
        exception = None
        with contextlib.suppress(Exception):  # its class may be there in the rank only
            exception = cloudpickle.loads(pickled) if pickled else None
        what, place = self.failure()
        return RankError(self.rank, what, exception, place, lost, own, who)

    def hand_over(self, setup: dict, data: bytes):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its exit tells more
            for frame in (pickle.dumps(setup), data):
                self.connection.sendall(struct.pack("!Q", len(frame)))
                self.connection.sendall(frame)

    def value(self):
        """What it returned; raises LaunchError if that cannot be unpacked here."""
        try:
            return cloudpickle.loads(self.report["value"])
        except Exception as error:
            raise LaunchError(
                f"rank {self.rank} returned a {self.report['type']}, which lives in ranks only "
                f"({type(error).__name__}: {error}); return numbers, strings, tensors, or lists "
                "and dicts of them"
            ) from None

    def read_frames(self) -> bool:
        """Read what has arrived from the rank; False once it has closed its side."""
        try:
            data = self.connection.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        while len(self.buffer) >= 8:
            (length,) = struct.unpack_from("!Q", self.buffer)
            if len(self.buffer) < 8 + length:
                break
            kind, content = pickle.loads(memoryview(self.buffer)[8 : 8 + length])
            del self.buffer[: 8 + length]
            self.note(kind, content)
        return bool(data)

    def note(self, kind, content):
        if kind == "joined":
            self.has_joined = True
        elif kind == "result":
            self.report = content
        elif kind == "error":
            self.error = content
        else:
            self.place = content["place"]

    def read_output(self) -> bool:
        data = os.read(self.output_fd, 65536)
        self.output_is_open = bool(data)
        self.output.add(data)
        return self.output_is_open

    def processor_seconds(self) -> float:
        """What its process has used so far; 0 where the kernel does not tell."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        user, system = map(int, fields[11:13])
        return (user + system) / os.sysconf("SC_CLK_TCK")

    def note_exit(self, status):
        self.status, self.died_at = status, time.perf_counter()

    def ask_where(self):
        self.place = None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.sendall(b"?")

    def dump_stack(self):
        """For a rank that cannot answer: have its interpreter write its stack to a file."""
        if self.pid and self.dump.exists():  # else it has not even begun
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)
            self.place = place_of(steps_of_dump(settled_text(self.dump)))
        self.place = self.place or UNKNOWN

    def close(self):
        self.output.close()
        self.connection.close()
        os.close(self.output_fd)


def settled_text(path: Path) -> str:
    """What a file holds once it has stopped growing; empty if nothing is written to it."""
    text, before = "", None
    deadline = time.perf_counter() + 0.5
    while time.perf_counter() < deadline and not (text and text == before):
        time.sleep(0.01)
        before, text = text, path.read_text()
    return text

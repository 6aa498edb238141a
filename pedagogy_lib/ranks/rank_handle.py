"""The handle of one rank in the notebook."""

import contextlib
import os
import pickle
import selectors
import signal
import socket
import struct
import time
from pathlib import Path

from ..basics.errors import RankError, describe_death
from ..basics.source_lines import SourceLine
from . import processes
from .call_stack import find_source_line, is_library, steps_of_dump
from .messages import (
    BEGUN,
    CUT_OFF,
    IS_STOPPED,
    RETURNED,
    STAGE_LINES,
    STAGES,
    STARTS,
    UNKNOWN,
    UNPACKED,
    FailureReport,
    Garbage,
    IsAt,
    MessageReader,
    ReturnReport,
    TooLarge,
    is_report,
)
from .output import Output
from .refusals import reason_in

DEAD_OF_ABORT = signal.SIGABRT
LOST_CONNECTION = "gloo/transport"  # in Gloo's messages about a neighbour that has gone
WITHOUT_FILES = "nfds != -1"  # in the message of Gloo's thread when a program has closed its files
CLOSED_TO_OTHERS = (
    "the connection to the other ranks was closed by this program: close only files that you opened"
)
WROTE_GARBAGE = (
    "wrote something of its own into its connection to the notebook: write only to files that it "
    "has opened itself"
)
# When a rank ended outside the learner's function, by the last stage that it had reached.
OUTSIDE = {
    STARTS: "before it began",
    BEGUN: "while unpacking the function and its arguments",
    UNPACKED: "while joining the other ranks",
    RETURNED: "while its value travelled",
}


class RankHandle:
    """The channel to one rank, its output, and what is known of its end."""

    def __init__(self, rank, server, noun, dump: Path, alone=False):
        self.rank, self.dump = rank, dump
        self.pid = None
        self.stage = STARTS
        self.report: ReturnReport | None = None  # once it has returned
        self.error: FailureReport | None = None  # once it has raised
        self.status = None  # as os.waitpid gives it, once the rank has ended
        self.killed_with: int | None = None  # the machine that was killed, with all its ranks
        self.source_line = None  # its answer to ask_where(), with its collectives
        self.calls = {}
        self.dumped = ""  # the part of its stack that its interpreter has written so far
        self.died_at = 0.0
        self.output = Output(rank, noun)
        self.read_before = 0  # bytes read before it reached its stage
        self.outgoing = []  # views of bytes that still have to be sent
        self.output_is_open = True
        self.has_hung_up = False  # closed its side of the connection
        self.connection, theirs = socket.socketpair()
        self.reader = MessageReader(self.connection)
        with theirs:
            output, their_output = os.pipe()
            self.pipe = open(output, "rb", buffering=0)  # noqa: SIM115 - close() does it
            with open(their_output, "wb", buffering=0):
                self.number = server.fork(theirs.fileno(), their_output, alone)

    @property
    def has_failed(self) -> bool:
        return self.error is not None or (self.status is not None and self.report is None)

    @property
    def is_gone(self) -> bool:
        """True once the rank has ended and everything it printed has been read."""
        return self.status is not None and not self.output_is_open

    @property
    def has_lost_a_neighbour(self) -> bool:
        """True if the rank raised only because its connection to another rank has gone."""
        return self.error is not None and LOST_CONNECTION in self.error.what

    def blame(self) -> tuple:
        """Return a sort key, lowest for the rank whose failure came first and caused the others.

        When a rank is killed, or leaves the group as it fails, others fail too, and may be heard
        before it. An abort may be how Gloo reports that a neighbour has gone.
        """
        if self.error:
            return (3 if self.has_lost_a_neighbour else 1, self.error.at)
        aborted = self.status & 0x7F == DEAD_OF_ABORT
        return (2 if aborted else 0, self.died_at)

    def last_place(self):
        """Return where the rank crashed; None if it left no stack, as after a kill or an exit."""
        source_line = find_source_line(steps_of_dump(text_of(self.dump)))
        return None if source_line is None or is_library(source_line.filename) else source_line

    def failure(self) -> tuple:
        """Return what went wrong and where, which is equal for ranks that made the same mistake."""
        if self.error is None:
            return (self.rank,)
        what, source_line = self.error.what, self.error.source_line
        if self.stage == BEGUN and not source_line:  # no line says when it failed
            first, *more = what.split("\n")
            what = "\n".join([f"{first} ({OUTSIDE[BEGUN]})", *more])
        return what, source_line

    def build_error(self, others=(), who="") -> RankError:
        """Build the error of this rank; `others` are the handles of ranks that failed later."""
        lost = {r.rank: r.error.source_line for r in others if r.has_lost_a_neighbour}
        own = {r.rank: r.failure() for r in others if r.error and not r.has_lost_a_neighbour}
        if self.error is None:
            words = self.output.last_lines(3)
            what = describe_death(self.status, OUTSIDE.get(self.stage, ""))
            if self.killed_with is not None:
                what = f"was killed, with all of machine {self.killed_with}"
            why = self.why_it_died("".join(words))
            what += f": {why}" * bool(why)
            what += "".join(f"\n  | {line}" for line in words)
            return RankError(self.rank, what, None, self.last_place(), lost, own, who)
        what, source_line = self.failure()
        exception = self.error.load_exception()
        return RankError(self.rank, what, exception, source_line, lost, own, who)

    def why_it_died(self, words) -> str:
        """Explain the rank's last words if a library printed them; else return an empty string."""
        if WITHOUT_FILES in words:
            return CLOSED_TO_OTHERS
        return reason_in(words) if self.stage == UNPACKED else ""

    def hand_over(self, setup: dict, data: bytes):
        """Begin to send the rank its work; `exchange` sends what it does not take at once."""
        for frame in (pickle.dumps(setup), data):
            self.outgoing += map(memoryview, (struct.pack("!Q", len(frame)), frame))
        self.send()

    def send(self):
        try:
            while self.outgoing:
                count = self.connection.send(self.outgoing[0], socket.MSG_DONTWAIT)
                self.outgoing[0] = self.outgoing[0][count:]
                if not self.outgoing[0]:
                    del self.outgoing[0]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):  # its exit says more
            self.outgoing.clear()

    def exchange(self, events) -> int:
        """Send and read what is possible; return the events to wait for next."""
        if events & selectors.EVENT_WRITE:
            self.send()
        is_open = not events & selectors.EVENT_READ or self.read()
        self.has_hung_up = not is_open
        return is_open and selectors.EVENT_READ | selectors.EVENT_WRITE * bool(self.outgoing)

    def read(self) -> bool:
        """Read what has arrived; return False once the rank has closed its side or sent garbage."""
        try:
            is_open = self.reader.read()
            for message in self.reader.messages():
                self.note(message)
        except TooLarge as error:
            self.fail(f"returned {error}, more than the notebook has memory for")
            return False
        except Garbage:
            self.fail(WROTE_GARBAGE)
            return False
        return is_open

    def note(self, message):
        """Note a report of the rank; raise Garbage for a message of any other kind."""
        if not is_report(message):
            raise Garbage
        if isinstance(message, ReturnReport):
            self.report = message
        elif isinstance(message, FailureReport):
            self.error = message
        elif isinstance(message, IsAt):
            self.source_line, self.calls = message.source_line, message.calls
        else:
            self.stage = message.stage
            self.read_before = self.reader.bytes_read

    @property
    def is_sending(self) -> bool:
        """True if something has arrived since the rank's last report of a stage."""
        return self.reader.bytes_read > self.read_before

    def bytes_moved(self) -> int:
        """Return a counter that rises when bytes come from the rank or go to it."""
        return self.reader.bytes_read - sum(map(len, self.outgoing))

    def fail(self, what):
        """Note a failure that the rank cannot report itself."""
        if self.error is None and self.report is None:
            now = time.perf_counter()
            self.error = FailureReport(what, exception=None, source_line=None, at=now)

    def has_come_to(self, stage) -> bool:
        return self.report is not None or STAGES.index(self.stage) >= STAGES.index(stage)

    def read_output(self, _) -> int:
        data = self.pipe.read(65536)
        self.output_is_open = bool(data)
        self.output.add(data)
        return selectors.EVENT_READ if data else 0

    def note_exit(self, status):
        self.status, self.died_at = status, time.perf_counter()

    def ask_where(self):
        """Ask the rank where it is; the answer is a report."""
        is_stopped = processes.state_of(self.pid) == processes.STOPPED
        self.source_line, self.dumped = IS_STOPPED if is_stopped else None, ""
        if not self.source_line and not self.outgoing:
            with contextlib.suppress(OSError):
                self.connection.send(b"?", socket.MSG_DONTWAIT)

    def ask_for_dump(self):
        """Make the interpreter of a rank that does not answer write its stack to a file."""
        if self.pid and self.dump.exists():  # otherwise it has not even begun
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)

    def has_answered(self) -> bool:
        """Return whether the rank has ended or its line is known, if only from a complete dump."""
        if self.source_line is None:
            before, self.dumped = self.dumped, text_of(self.dump)
            if self.dumped and self.dumped == before:  # it no longer grows
                self.source_line = find_source_line(steps_of_dump(self.dumped))
        return self.source_line is not None or self.status is not None

    def where(self) -> SourceLine | None:
        """Return the rank's source line, as far as it is known; None if it has returned."""
        if self.report:
            return None
        usual = STAGE_LINES.get(self.stage)
        if self.source_line == IS_STOPPED or usual is None:
            return (self.source_line or (CUT_OFF if self.has_hung_up else UNKNOWN)).or_in_wait()
        is_learners = self.source_line is not None and not is_library(self.source_line.filename)
        return self.source_line._replace(operation=usual.operation) if is_learners else usual

    def close(self):
        self.output.close()
        self.connection.close()
        self.pipe.close()


def text_of(path: Path) -> str:
    """Return the text of a file; empty if it does not exist, as the learner may delete anything."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""

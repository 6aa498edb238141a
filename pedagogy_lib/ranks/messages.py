"""The messages between a rank and the notebook: one pickle each, and its large buffers.

A rank sends only reports, which are messages of the classes in `KINDS`.

A message travels in parts: the pickle, then each buffer. A header precedes each part: a word that
distinguishes parts from anything else that the learner's program may write to the connection,
whether the message goes on after this part, and the part's length. A rank sends a buffer from the
memory that holds it, and the notebook reads it into the memory in which it stays.
"""

import contextlib
import mmap
import pickle
import socket
import struct
from dataclasses import dataclass, fields

import cloudpickle

from ..basics.flight_recorder import GroupCalls
from ..basics.source_lines import (
    LOST,
    MEETING,
    STARTING,
    STOPPED,
    TRAVELLING,
    UNPACKING,
    SourceLine,
    make_source_line,
)
from ..basics.units import format_bytes
from ..measuring.uses import Use

HEADER = struct.Struct("!8s?Q")
WORD = b"pedagogy"
SMALL_BYTES = 1 << 16  # read at once in search of headers
LARGE_BYTES = 1 << 20

# Where a rank is outside the learner's function.
UNKNOWN = make_source_line("at a place that it does not tell")
CUT_OFF = make_source_line("cut off from the notebook", LOST)
IS_STOPPED = make_source_line("stopped by a signal", STOPPED)
# Ranks report each stage that they reach, in this order.
STAGES = STARTS, BEGUN, UNPACKED, JOINED, RETURNED = (
    "starts", "begun", "unpacked", "joined", "returned"
)  # fmt: skip
# Where a rank is between a stage and the next one; after JOINED, it is in the function.
STAGE_LINES = {
    STARTS: make_source_line("still starting", STARTING),
    BEGUN: make_source_line("unpacking the function and its arguments", UNPACKING),
    UNPACKED: make_source_line("waiting for the other ranks to start", MEETING),
    RETURNED: make_source_line("returned; the value travels", TRAVELLING),
}


class Garbage(Exception):
    """An error: the bytes that arrived are no message."""


def parts_of(message) -> list:
    """Return the pickle of a message and the large buffers that it leaves out."""
    buffers = []
    stream = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    return [stream, *(buffer.raw() for buffer in buffers)]


def send_message(connection, message):
    parts = parts_of(message)
    for number, part in enumerate(parts, start=1):
        head = HEADER.pack(WORD, number < len(parts), len(part))
        if len(part) < SMALL_BYTES:
            connection.sendall(head + part)
        else:
            connection.sendall(head)
            connection.sendall(part)


class TooLarge(Garbage):
    """An error: a message's part is too large for this process's memory; its text is the size."""


class MessageReader:
    """A reader of messages from a connection, which reads as much at a time as has arrived."""

    def __init__(self, connection):
        self.connection = connection
        self.rest = b""  # unused bytes that were read in search of headers
        self.parts = []  # of the message that is arriving
        self.is_last = True
        self.missing = None  # a view of the end of a part, which still has to be filled
        self.bytes_read = 0

    def read(self) -> bool:
        """Read once; return False if the other side has closed the connection."""
        try:
            count = self.fill() if self.missing else self.search()
        except ConnectionResetError:
            return False
        self.bytes_read += count
        return count > 0

    def fill(self) -> int:
        count = self.connection.recv_into(self.missing)
        self.missing = self.missing[count:]
        return count

    def search(self) -> int:
        data = self.connection.recv(SMALL_BYTES)
        self.rest += data
        return len(data)

    def messages(self):
        """Yield every message that is complete; raise Garbage for anything else."""
        while self.take_part():
            if self.is_last:
                parts, self.parts = self.parts, []
                yield unpickle_message(parts)

    def take_part(self) -> bool:
        """Begin a part once its header has arrived; return whether the part is complete."""
        if self.missing is None:
            if len(self.rest) < HEADER.size:
                return False
            self.begin_part()
        if self.missing:
            return False
        self.missing = None
        return True

    def begin_part(self):
        word, goes_on, length = HEADER.unpack_from(self.rest)
        if word != WORD:
            raise Garbage
        part = memory_of(length)
        here = self.rest[HEADER.size : HEADER.size + length]
        part[: len(here)] = here
        self.rest = self.rest[HEADER.size + len(here) :]
        self.missing = memoryview(part)[len(here) :]
        self.parts.append(part)
        self.is_last = not goes_on


def memory_of(length):
    """Allocate memory for a part; the kernel provides a large one page by page, as it is filled."""
    if length < LARGE_BYTES:
        return bytearray(length)
    try:
        return mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError):
        raise TooLarge(format_bytes(length)) from None


def unpickle_message(parts):
    try:
        return pickle.loads(parts[0], buffers=parts[1:])
    except Exception:
        raise Garbage from None


def receive_frame(channel: socket.socket) -> bytearray:
    """Receive a frame from the notebook in a starting rank; raise EOFError if it has closed."""
    (length,) = struct.unpack("!Q", receive_exactly(channel, 8))
    return receive_exactly(channel, length)


def receive_exactly(channel, length) -> bytearray:
    buffer = bytearray(length)
    view = memoryview(buffer)
    while view:
        count = channel.recv_into(view)
        if not count:
            raise EOFError("the other side closed the channel")
        view = view[count:]
    return buffer


@dataclass
class StageReport:
    """A report that the rank has reached one of `STAGES`."""

    stage: str


@dataclass
class IsAt:
    """A rank's answer when it is asked where it is.

    source_line  None if Python cannot tell
    calls        its collectives in each process group, by the group's name
    """

    source_line: SourceLine | None
    calls: dict[str, GroupCalls]


@dataclass
class ReturnReport:
    """A report that the learner's function has returned.

    value          the returned value: a pickle, and the large buffers that it leaves out
    value_type     the name of the value's class
    uses           the uses of the labels that the function has measured
    wire           "measured": bytes on the wire are the kernel's; "counted": from the calls
    imported_late  whether the rank has imported modules that the fork server can import beforehand
    """

    value: list
    value_type: str
    uses: list[Use]
    wire: str
    imported_late: bool

    def take_value(self) -> list:
        """Return the value and drop it from the report, because it may be large."""
        value, self.value = self.value, []
        return value


@dataclass
class FailureReport:
    """A report that the rank has failed.

    what         the end of a sentence that begins with the rank
    exception    the pickled exception; None if it cannot travel, or there was none
    source_line  the learner's line; None if it is not known
    at           the time of the failure, by `time.perf_counter()`
    """

    what: str
    exception: bytes | None
    source_line: SourceLine | None
    at: float

    def load_exception(self) -> BaseException | None:
        """Return the exception; None if its class is unknown here, or refuses to be unpacked."""
        with contextlib.suppress(Exception, SystemExit):
            return cloudpickle.loads(self.exception) if self.exception else None
        return None


KINDS = StageReport, IsAt, ReturnReport, FailureReport


def is_report(message) -> bool:
    """Return whether a message is a complete report: the learner's program may send anything."""
    if type(message) not in KINDS or vars(message).keys() != {f.name for f in fields(message)}:
        return False
    return not isinstance(message, StageReport) or message.stage in STAGES

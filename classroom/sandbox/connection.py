"""The grader's end of a process in which a submission's answers live.

The replies are bytes from an untrusted process: they are read up to a limit and a deadline, as
exact values, and nothing in them runs.
"""

import json
import math
import os
import selectors
import time
from dataclasses import dataclass

from coursekit.answers.answer_server import LENGTH
from coursekit.answers.exact_values import rebuild_value
from coursekit.answers.remote_answer import AnswerProcessFailed, RemoteAnswer

MOST_REPLY_BYTES = 256 * 2**20
MOST_CONTAINERS = 1_000_000  # lists and dicts in a reply: as objects they take far more memory
MOST_OF_A_LINE = 400  # characters
MOST_PRINTED = 20_000  # characters, of an answer
PART = 1 << 16
END_SECONDS = 10.0  # for the processes of an answer to end
NO_ANSWER = "its process does not answer any more"
HAS_ENDED = "it has ended its process"
FORGED = "its process has sent something that the course does not send"
ENDLESS = "a loop, or a wait, without end?"
EXIT = "exit(), os._exit() and the like end the whole process: a function ends with return or raise"


@dataclass
class Pipes:
    """The pipes of one process, for its requests and for its replies."""

    requests: int
    replies: int

    def close(self):
        for number in (self.requests, self.replies):
            os.close(number)


class Connection:
    """A connection that asks a process for one answer after another: an `AnswerProcess`.

    seconds   that one request may take; a launch in it has its own, shorter time
    in_all    seconds that all requests of one answer may take
    is_lost   whether the process cannot be asked for anything any more
    """

    def __init__(self, pipes: Pipes, seconds: float, in_all=math.inf, start_seconds: float = 120.0):
        self.pipes, self.seconds, self.start_seconds = pipes, seconds, start_seconds
        self.in_all, self.left = in_all, in_all
        self.is_lost = self.is_serving = False
        self.kept = ""
        os.set_blocking(pipes.requests, False)

    def await_ready(self):
        """Wait until the process is ready; raise AnswerProcessFailed if it does not start."""
        self.reply(self.start_seconds)

    def begin(self, name: str, source: str | None = None, lab: str | None = None) -> RemoteAnswer:
        """Return the next answer: a function of a cell's source, or of a lab."""
        self.end_answer()
        self.kept, self.left = "", self.in_all
        self.send(json.dumps({"name": name, "source": source}).encode(errors="surrogatepass"))
        self.is_serving = True
        return RemoteAnswer(self, name, lab)

    def end_answer(self):
        """End the child of the previous answer, and what that has left behind.

        Raises  AnswerProcessFailed if something of it goes on sending
        """
        if not self.is_serving or self.is_lost:
            return
        self.is_serving = False
        deadline = time.monotonic() + END_SECONDS
        self.send(b"")
        while "ended" not in self.reply(deadline - time.monotonic()):
            pass

    def read_output(self) -> str:
        return self.kept

    def run(self, data: bytes):
        """Run a packed call in the process, as `remote_answer.AnswerProcess` describes."""
        if self.is_lost or not self.is_serving:
            raise AnswerProcessFailed(HAS_ENDED, EXIT)
        began = time.monotonic()
        self.send(data)
        reply = self.reply(min(self.seconds, self.left))
        self.left -= time.monotonic() - began
        if "ended" in reply:  # what it has not read yet would be taken for a new answer
            self.lose(HAS_ENDED, EXIT)
        self.keep(reply)
        return self.value_of(reply)

    def value_of(self, reply):
        try:
            if "endless" in reply:
                seconds, source_line = reply["endless"]
                source_line = str(source_line)[:MOST_OF_A_LINE]
                what = f"it still runs after {float(seconds):.0f} s\n  at {source_line}"
                error = AnswerProcessFailed(what, "a loop that never ends?")
            elif "error" in reply:
                error = rebuild_value(reply["error"])
            else:
                return rebuild_value(reply["value"])
        except Exception:  # Unreadable, or whatever parts of another form lead to
            self.lose(FORGED)
        if not isinstance(error, BaseException):
            self.lose(FORGED)
        raise error

    def keep(self, reply):
        printed = reply.get("printed")
        if type(printed) is str:
            self.kept += printed[: MOST_PRINTED - len(self.kept)]

    def lose(self, what, why=""):
        self.is_lost = True
        raise AnswerProcessFailed(what, why) from None

    # ---- Messages ----

    def send(self, data: bytes):
        """Send a message; raise AnswerProcessFailed if it is not read in time."""
        left, deadline = memoryview(LENGTH.pack(len(data)) + data), time.monotonic() + self.seconds
        while left:
            self.wait(self.pipes.requests, selectors.EVENT_WRITE, deadline)
            try:
                left = left[os.write(self.pipes.requests, left[:PART]) :]
            except BlockingIOError:
                continue
            except OSError:  # the other end is closed
                self.lose(HAS_ENDED, EXIT)

    def reply(self, seconds) -> dict:
        """Return the next reply; raise AnswerProcessFailed if it is late, or not a reply."""
        deadline = time.monotonic() + seconds
        size = LENGTH.unpack(self.read(LENGTH.size, deadline))[0]
        if size > MOST_REPLY_BYTES:
            self.lose(f"it sends {size:,} bytes; at most {MOST_REPLY_BYTES:,} are read")
        try:
            data = self.read(size, deadline)
            if data.count(b"[") + data.count(b"{") > MOST_CONTAINERS:
                self.lose(f"it sends more than {MOST_CONTAINERS:,} lists and dicts at once")
            found = json.loads(data)
        except (ValueError, RecursionError):
            self.lose(FORGED)
        return found if isinstance(found, dict) else self.lose(FORGED)

    def read(self, size, deadline) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self.wait(self.pipes.replies, selectors.EVENT_READ, deadline)
            part = os.read(self.pipes.replies, min(PART, size - len(parts)))
            if not part:
                self.lose(HAS_ENDED, EXIT)
            parts += part
        return bytes(parts)

    def wait(self, number, event, deadline):
        """Wait for a pipe, until the deadline at most even if there is always more to read."""
        with selectors.DefaultSelector() as selector:
            selector.register(number, event)
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                of_one = self.left > self.seconds
                told = f"{self.seconds:g} s" if of_one else f"{self.in_all:g} s in all its calls"
                self.lose(f"{NO_ANSWER} after {told}", ENDLESS)

"""The output of ranks, shown at once and kept, and the line that shows a launch's progress."""

import contextlib
import math
import sys
import time

from ..basics.screen import say, someone_watches
from ..basics.units import format_bytes

LIVE_LINES = 100  # per rank: a rank that prints forever must not fill the notebook
LIVE_BYTES = 2_000  # per line
KEPT_BYTES = 2_000_000  # per rank, from the start of its output
KEPT_OF_END = 10_000  # per rank, from the end of its output, which says why it ended
PROGRESS_AFTER_SECONDS = 2.0
OF_DEATHS = (b"terminate called ", b"  what():  ")  # C++ prints these last; the error has them, too


class Output:
    """The output of one rank."""

    def __init__(self, rank, noun="rank", live_lines=LIVE_LINES):
        self.rank = rank
        self.live_lines = math.inf if live_lines is None else live_lines
        self.prefix = f"[{noun} {rank}]"
        self.kept, self.end = bytearray(), bytearray()  # the start and the end of the output
        self.dropped = 0  # bytes between the two
        self.rest = b""
        self.lines_shown = 0

    def add(self, data: bytes):
        self.keep(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if not line.startswith(OF_DEATHS):
                self.show(line)
        if len(self.rest) > 10_000:
            self.close()

    def keep(self, data):
        room = KEPT_BYTES - len(self.kept)
        self.kept += data[:room]
        self.end += data[room:]
        excess = max(0, len(self.end) - KEPT_OF_END)
        self.dropped += excess
        del self.end[:excess]

    def show(self, line: bytes):
        if self.lines_shown < self.live_lines:
            more = " …" if len(line) > LIVE_BYTES else ""
            say(f"{self.prefix} {line[:LIVE_BYTES].decode(errors='replace')}{more}")
        elif self.lines_shown == self.live_lines:
            say(
                f"{self.prefix} … prints more: once the launch has returned, its first "
                f"{format_bytes(KEPT_BYTES)} and its end are in run.output[{self.rank}]"
            )
        self.lines_shown += 1

    def close(self):
        """Show the text that the rank printed last without ending the line."""
        if self.rest:
            self.show(self.rest)
            self.rest = b""

    @property
    def size(self) -> int:
        """The number of bytes that the rank has printed so far."""
        return len(self.kept) + len(self.end) + self.dropped

    def last_lines(self, count) -> list[str]:
        last = (self.kept[-KEPT_OF_END:] + self.end)[-KEPT_OF_END:]
        return last.decode(errors="replace").strip().splitlines()[-count:]

    @property
    def text(self) -> str:
        first, last = (part.decode(errors="replace") for part in (self.kept, self.end))
        if not self.dropped:
            return (self.kept + self.end).decode(errors="replace")
        return f"{first}\n… ({format_bytes(self.dropped)} left out) …\n{last}"


class ProgressLine:
    """A line that shows that a long launch is alive, and disappears when the launch ends."""

    def __init__(self):
        self.began = time.perf_counter()
        self.handle = None
        self.shown_at = 0.0

    def tick(self, said):
        """Show what is going on, at most once a second, if the launch is a long one."""
        now = time.perf_counter()
        if now - self.began < PROGRESS_AFTER_SECONDS or now - self.shown_at < 1.0:
            return
        self.shown_at = now
        self.show(f"{now - self.began:.0f} s: {said} …")

    def show(self, text):
        with contextlib.suppress(Exception):  # as in say(): stderr may be closed, or full
            self.write(text)

    def write(self, text):
        if "IPython" in sys.modules and someone_watches():
            from IPython.display import Pretty, display

            content = Pretty(text)
            if self.handle is None:
                self.handle = display(content, display_id=True)
            else:
                self.handle.update(content)
        elif sys.stderr.isatty():
            self.handle = self.handle or True
            print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)

    def close(self):
        if self.handle is not None:
            self.show("")

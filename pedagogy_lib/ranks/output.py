"""The output of ranks, shown at once and kept, and the line that shows a launch's progress."""

import contextlib
import math
import re
import sys
import time

from ..basics.screen import is_notebook, say, someone_watches
from ..basics.units import format_bytes

LIVE_LINES = 100  # per rank: a rank that prints forever must not fill the notebook
LIVE_BYTES = 2_000  # per line
KEPT_BYTES = 2_000_000  # per rank, from the start of its output
KEPT_OF_END = 10_000  # per rank, from the end of its output, which says why it ended
PROGRESS_AFTER_SECONDS = 2.0
OF_DEATHS = (b"terminate called ", b"  what():  ")  # C++ prints these last; the error has them, too


REDRAWS = re.compile(rb"\r|\x1b\[\d*[AF]")  # to the start of a line: it is drawn again
GOES_UP = re.compile(rb"\x1b\[\d*[AF]")
MOVES = re.compile(rb"\x1b\[[0-9;?]*[A-HJKSTfhlsu]")  # cursor moves and erasures, not colours
BAR_SECONDS = 0.25  # between two states of a bar in a notebook or terminal
LOG_SECONDS = 10.0  # the same where no line can be overwritten


class Output:
    """The output of one rank."""

    def __init__(self, rank, noun="rank", live_lines=LIVE_LINES):
        self.rank = rank
        self.live_lines = math.inf if live_lines is None else live_lines
        self.prefix = f"[{noun} {rank}]"
        self.kept, self.end = bytearray(), bytearray()  # the start and the end of the output
        self.dropped = 0  # bytes between the two
        self.rest = self.redrawn = b""  # a line without its end; a line of a bar of several
        self.lines_shown = 0
        self.bar = BarLine()

    def add(self, data: bytes):
        self.keep(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if GOES_UP.search(line):  # a bar of several lines, which goes on
                self.redrawn = last_state(line)
            elif not line.startswith(OF_DEATHS):
                self.show_redrawn()
                self.show(line)
        if b"\r" in self.rest:
            end = b"\x1b[A" if GOES_UP.search(self.rest) else b"\r" * self.rest.endswith(b"\r")
            self.rest = b"\r" + last_state(self.rest) + end
        self.refresh()
        if len(self.rest) > 10_000:
            self.close()

    def refresh(self):
        """Show the state of a line that is still being redrawn, if it is time to."""
        line = self.rest if b"\r" in self.rest else self.redrawn
        if last_state(line) and self.lines_shown < self.live_lines:
            self.bar.update(self.text_of(line))

    def show_redrawn(self):
        if self.redrawn:
            self.show(self.redrawn)
            self.redrawn = b""

    def text_of(self, line: bytes) -> str:
        line = last_state(line)
        more = " …" if len(line) > LIVE_BYTES else ""
        return f"{self.prefix} {line[:LIVE_BYTES].decode(errors='replace')}{more}"

    def keep(self, data):
        room = KEPT_BYTES - len(self.kept)
        self.kept += data[:room]
        self.end += data[room:]
        excess = max(0, len(self.end) - KEPT_OF_END)
        self.dropped += excess
        del self.end[:excess]

    def show(self, line: bytes):
        if self.lines_shown < self.live_lines:
            self.bar.end(self.text_of(line))
        elif self.lines_shown == self.live_lines:
            say(
                f"{self.prefix} … prints more: once the launch has returned, its first "
                f"{format_bytes(KEPT_BYTES)} and its end are in run.output[{self.rank}]"
            )
        self.lines_shown += 1

    def close(self):
        """Show the text that the rank printed last without ending the line."""
        self.show_redrawn()
        if last_state(self.rest):
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


def last_state(line: bytes) -> bytes:
    """Return what a line shows in the end, if it was drawn several times."""
    states = [MOVES.sub(b"", state) for state in REDRAWS.split(line)]
    return next((state for state in reversed(states) if state.strip()), b"")


def is_terminal() -> bool:
    with contextlib.suppress(Exception):  # stdout may be closed, None, or any object
        return sys.stdout.isatty()
    return False


class BarLine:
    """A rank's line that is still being redrawn, such as a progress bar."""

    def __init__(self):
        self.handle, self.text, self.shown_at = None, None, 0.0

    def update(self, text):
        """Show a state of the line, at most a few times a second; the next line ends it."""
        overwrites = is_notebook() or is_terminal()
        now = time.perf_counter()
        if text == self.text or now - self.shown_at < (BAR_SECONDS if overwrites else LOG_SECONDS):
            return
        self.text, self.shown_at = text, now
        if is_notebook():
            self.display(text)
        elif overwrites:
            with contextlib.suppress(Exception):  # as in say()
                print(f"\r{text}\033[K", end="\r", flush=True)
        else:
            say(text)

    def end(self, text):
        """Show a line that is complete, where its states were."""
        if self.handle is not None:
            self.display(text)
        elif text != self.text or is_terminal():
            say(text)
        self.handle, self.text = None, None

    def display(self, text):
        from IPython.display import Pretty, display

        if self.handle is None:
            self.handle = display(Pretty(text), display_id=True)
        else:
            self.handle.update(Pretty(text))


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

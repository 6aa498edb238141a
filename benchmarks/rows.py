"""The printing of results: a row as soon as it is measured, and one line that shows the progress.

On a terminal that line is updated below the rows. Anywhere else it is an ordinary line, printed
once per measurement and again every 30 seconds while the measurement lasts.
"""

import io
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field

LIVE_SECONDS, PLAIN_SECONDS = 0.5, 30.0  # between two reports of the progress
ERASE = "\r\033[K"


@dataclass
class Row:
    """One line of results; `limit` is the limit that it should keep, `holds` whether it does."""

    what: str
    ours: str = ""
    peer: str = ""
    ratio: str = ""
    limit: str = ""
    holds: bool = False
    raw: dict = field(default_factory=dict)
    spread: str = ""  # of the ratio

    def cells(self) -> list[str]:
        verdict = ("yes" if self.holds else "no") if self.limit else ""
        return [self.ours, self.peer, self.ratio, self.spread, self.limit, verdict, self.what]

    def json_dict(self) -> dict:
        return asdict(self) | {"holds": self.holds if self.limit else None}


HEADS = ["ours", "peer", "ratio", "middle half", "limit", "holds", "what"]
WIDTHS = [9, 9, 13, 15, 11, 5, 0]  # the same for all tables: later rows are not known yet


@dataclass
class Measurement:
    """A measurement: `take()` yields each row once it is measured, and texts on its progress."""

    what: str
    take: Callable[[], Iterable[Row | str]]


class Screen(io.TextIOBase):
    """A stream for rows and for all that others print, with the progress below."""

    def __init__(self, stream, plain_seconds=PLAIN_SECONDS):
        self.stream, self.live = stream, stream.isatty()
        self.pause = LIVE_SECONDS if self.live else plain_seconds
        self.began = self.told = time.perf_counter()
        self.progress = self.note = ""
        self.at_line_start = True
        self.lock = threading.RLock()  # the clock runs in its own thread

    def write(self, text) -> int:
        with self.lock:
            self.stream.write(ERASE + text if self.live and self.at_line_start else text)
            self.stream.flush()
            self.at_line_start = text.endswith("\n")
        return len(text)

    def line(self, text=""):
        self.write(f"{text}\n")  # in one piece, or the clock might write in between

    def row(self, cells):
        self.line("  ".join(map(str.ljust, cells, WIDTHS)).rstrip())

    def begin_measurement(self, progress):
        """Start to show the progress of a measurement."""
        self.progress, self.note = progress, ""
        self.tell()

    def tell(self):
        """Write the progress, unless the last line of output is unfinished."""
        text = f"[{self.seconds():4.0f} s] {self.progress}{self.note and f' ({self.note})'}"
        with self.lock:
            self.told = time.perf_counter()
            if not self.at_line_start:
                return
            if self.live:  # a line that wraps could not be erased
                text = ERASE + text[: shutil.get_terminal_size().columns - 1]
            self.stream.write(text if self.live else f"{text}\n")
            self.stream.flush()

    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @contextmanager
    def watch_output(self):
        """Print all output of the block on this stream, and update the progress meanwhile."""
        done = threading.Event()
        clock = threading.Thread(target=self.tick, args=(done,), daemon=True)
        clock.start()
        try:
            with redirect_stdout(self), redirect_stderr(self):
                yield
        finally:
            done.set()
            clock.join()
            self.write("")  # erases the progress

    def tick(self, done):
        while not done.wait(min(self.pause, LIVE_SECONDS)):
            if self.progress and time.perf_counter() - self.told >= self.pause:
                self.tell()


def seconds(value) -> str:
    return f"{value:.3f} s" if value < 1 else f"{value:.2f} s"


def milliseconds(value) -> str:
    return f"{value * 1e3:.2f} ms"


def microseconds(value) -> str:
    return f"{value * 1e6:.1f} µs"


def mb(value) -> str:
    return f"{value / 1e6:.1f} MB"

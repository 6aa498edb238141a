"""Limits for an answer that runs in this process: its output is captured and its time is bounded.

The launch's timeout covers answers that ranks try. Nothing else could stop an answer that is
called here, in the notebook's own process.
"""

import contextlib
import io
import signal
import sys
import threading
import time

from pedagogy_lib.basics.errors import Stopped
from pedagogy_lib.ranks.call_stack import (
    find_source_line,
    is_library,
    steps_of_frame,
    steps_of_traceback,
)

LOOK_SECONDS = 0.5
# For all calls of an answer in one check together; those of a right answer take milliseconds.
MOST_COMPUTING_SECONDS = 10.0
MOST_SECONDS = 30.0  # for an answer that hardly computes, because it sleeps or waits
KEPT_CHARACTERS = 20_000  # of an answer's output


class Endless(BaseException):
    """An error for an answer that runs too long; no `except Exception` in the answer catches it."""

    def __init__(self, seconds, source_line):
        super().__init__(seconds, source_line)
        self.seconds, self.source_line = seconds, source_line


class OutputCapture(io.TextIOBase):
    """A replacement for stdout that keeps the beginning of the output and counts its lines."""

    def __init__(self):
        self.kept, self.lines = "", 0

    @classmethod
    def capture_text(cls, text) -> "OutputCapture":
        """Return a capture of text that was printed in another process."""
        printed = cls()
        printed.write(text)
        return printed

    def writable(self):
        return True

    def write(self, text):
        self.kept += text[: KEPT_CHARACTERS - len(self.kept)]
        self.lines += text.count("\n")
        return len(text)


@contextlib.contextmanager
def watch_answer(progress, is_here=True):
    """Capture an answer's output in the `OutputCapture` that this yields, and limit its time.

    progress  a `ProgressLine` that is updated when an answer runs for long
    is_here   whether answers run in this process, so that an endless one has to be ended here
    Raises  Endless in an answer that does not end; Stopped at an interrupt
    """
    printed, here = OutputCapture(), sys._getframe(2)  # the function that contains the `with`
    ended = run_timer(Look(here, progress)) if is_here else contextlib.nullcontext()
    try:
        with contextlib.redirect_stdout(printed), ended:
            yield printed
    except BaseException as error:
        print(printed.kept, end="")
        if isinstance(error, KeyboardInterrupt) and not isinstance(error, Stopped):
            raise Stopped(describe_interrupt(steps_of_traceback(error.__traceback__))) from None
        raise


def describe_interrupt(steps) -> str:
    source_line = find_source_line(steps)
    if source_line is None or is_library(source_line.filename):
        return "the check was stopped before its end: there is no verdict"
    return f"the check was stopped in your answer, which was at\n  {source_line}"


@contextlib.contextmanager
def run_timer(look):
    """Call `look` twice a second, if `can_look()` allows a timer."""
    if not can_look():
        yield
        return
    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def can_look() -> bool:
    """Return whether SIGALRM exists, this thread receives it, and no other code uses its timer."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        return False
    return signal.getitimer(signal.ITIMER_REAL)[0] == 0


class Look:
    """A signal handler that ends an answer once all its calls together have taken too long.

    here  a frame that is outside of all answers
    """

    def __init__(self, here, progress):
        self.here, self.progress = here, progress
        self.was_in_answer = False  # at the last look
        self.before = (0.0, 0.0)
        self.seconds = self.computed = 0.0  # spent in answers

    def __call__(self, _, frame):
        now = time.perf_counter(), time.process_time()
        is_in_answer = self.answer_in(frame) is not None
        if is_in_answer and self.was_in_answer:
            self.seconds += now[0] - self.before[0]
            self.computed += now[1] - self.before[1]
            if self.computed > MOST_COMPUTING_SECONDS or self.seconds > MOST_SECONDS:
                raise Endless(self.seconds, find_source_line(steps_of_frame(frame)))
            self.progress.tick("your function runs")
        self.was_in_answer, self.before = is_in_answer, now

    def answer_in(self, frame):
        """Return the outermost frame of the learner's code that the check has called, or None."""
        found = None
        while frame is not None and frame is not self.here:
            if not is_library(frame.f_code.co_filename):
                found = frame
            frame = frame.f_back
        return found

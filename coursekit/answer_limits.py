"""While an answer is tried in this process: what it prints is kept, and one without end is ended.

Answers that ranks try have the launch's timeout; those that are called here, in the notebook's own
process, have nothing else that could stop them.
"""

import contextlib
import io
import signal
import sys
import threading
import time

from pedagogy_lib.basics.errors import Stopped
from pedagogy_lib.ranks.call_stack import is_library, place_of, steps_of_frame, steps_of_traceback

LOOK_SECONDS = 0.5
# Of an answer, in all its calls of a check together: those of a right one take milliseconds.
MOST_COMPUTING_SECONDS = 10.0
MOST_SECONDS = 30.0  # if it hardly computes: it sleeps, or waits
KEPT_CHARACTERS = 20_000  # of what an answer prints


class Endless(BaseException):
    """An answer has run for too long; no `except Exception` in it keeps this."""

    def __init__(self, seconds, place):
        super().__init__(seconds, place)
        self.seconds, self.place = seconds, place


class OutputCapture(io.TextIOBase):
    """In the place of stdout: keeps the beginning of what is printed, and counts the lines."""

    def __init__(self):
        self.kept, self.lines = "", 0

    @classmethod
    def capture_text(cls, text) -> "OutputCapture":
        """What was printed in another process."""
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
    """What an answer prints within is kept, in the `OutputCapture` that is given.

    progress  a `Progress`: it is told when an answer runs for long
    is_here   whether answers run in this process, so that one without end is to be ended here
    Raises  Endless in an answer that runs on and on; Stopped at an interrupt
    """
    printed, here = OutputCapture(), sys._getframe(2)  # the function that is in the `with`
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
    place = place_of(steps)
    if place is None or is_library(place.filename):
        return "the check was stopped before its end: there is no verdict"
    return f"the check was stopped in your answer, which was at\n  {place}"


@contextlib.contextmanager
def run_timer(look):
    """Look twice a second at what runs."""
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
    """Windows has no such signal, other threads get none, and it may be somebody else's."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        return False
    return signal.getitimer(signal.ITIMER_REAL)[0] == 0


class Look:
    """Handles the signal: whether the calls of an answer have taken too long, all together.

    here  a frame that is outside of all answers
    """

    def __init__(self, here, progress):
        self.here, self.progress = here, progress
        self.was_in_answer = False  # when it looked last
        self.before = (0.0, 0.0)
        self.seconds = self.computed = 0.0  # spent in answers

    def __call__(self, _, frame):
        now = time.perf_counter(), time.process_time()
        is_in_answer = self.answer_in(frame) is not None
        if is_in_answer and self.was_in_answer:
            self.seconds += now[0] - self.before[0]
            self.computed += now[1] - self.before[1]
            if self.computed > MOST_COMPUTING_SECONDS or self.seconds > MOST_SECONDS:
                raise Endless(self.seconds, place_of(steps_of_frame(frame)))
            self.progress.tick("your function runs")
        self.was_in_answer, self.before = is_in_answer, now

    def answer_in(self, frame):
        """The outermost frame of the learner's that the check has come to, or None."""
        found = None
        while frame is not None and frame is not self.here:
            if not is_library(frame.f_code.co_filename):
                found = frame
            frame = frame.f_back
        return found

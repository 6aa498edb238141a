"""The events of a watched program on one rank, in memory until the watcher's thread writes them.

An event is a tuple: its kind, then what belongs to it. Times are seconds of the system's clock.

    ("line", number, filename, line, function, text)   a line of the program that others refer to
    ("group", name, label, ranks)              a process group: its name, its label, its members
    ("call", begin, name, group, number, dtype, shape, bytes, formula, line, operation)
                                               a collective or message, and its index in its group;
                                               `formula` is what the textbook lets this rank send
    ("bytes", group, number, sent, received)   what one collective put on the wire, by the kernel
    ("done", group, number, end)               when it had ended, at the latest
    ("wait", begin, end)                       the main thread waited for a collective or message
    ("span", kind, begin, end, line)           "backward", "optimizer", "data", "forward", "save" …
    ("step", number, end, rates)               the end of an optimizer's step; its learning rates
    ("wire", time, {group: (sent, received)})  bytes of the connections of each group, so far
    ("memory", time, {kind: bytes})            live tensors by kind
    ("digest", step, kind, numbers)            a number for each parameter of `names`; see replicas
    ("names", [(name, shape, dtype, is trained, is sharded), …])   of the digests' parameters
    ("replicas", names, ranks)                 parameters of which these ranks hold equal copies
    ("values", step, "raw" | "final", values)  some numbers of a few gradients: after the backward,
                                               and when the optimizer begins
    ("loss", step, value, operation, mean)     what backward began with
    ("batch" | "input", step, rows, number, line)   a batch as the DataLoader gave it, or as a DDP
                                               module got it: its rows, a number for its content
    ("random", step, phase, number)            the state of the generator, when a phase begins
    ("fact", name, value, line)                what a finding needs to know
    ("cost", step, seconds)                    what watching has taken of this rank's time, so far
"""

import contextlib
import functools
import pickle
import sys
import threading
import time

MOST_EVENTS = 400_000  # of one rank


class Trace:
    """The trace of this rank."""

    def __init__(self, path):
        self.path, self.events = path, []
        self.count, self.cost = 0, 0.0
        self.step = 0  # the number of optimizer steps that have ended
        self.offset = time.time() - time.perf_counter()
        self.lines = {}  # {(filename, line): number}
        self.told = set()  # facts that are told once

    def now(self) -> float:
        return time.perf_counter() + self.offset

    def add(self, *event):
        self.count += 1
        if self.count <= MOST_EVENTS:
            self.events.append(event)

    def add_once(self, *event):
        """Add an event unless an equal one has been added before."""
        if event not in self.told:
            self.told.add(event)
            self.add(*event)

    def line(self) -> int:
        """Return the number of the program's innermost line that is being executed."""
        frame = sys._getframe(1)
        while frame.f_back is not None and is_hidden(frame.f_code.co_filename):
            frame = frame.f_back
        place = frame.f_code.co_filename, frame.f_lineno
        if place not in self.lines:
            self.lines[place] = len(self.lines)
            self.add("line", self.lines[place], *place, frame.f_code.co_name, source_of(*place))
        return self.lines[place]

    @contextlib.contextmanager
    def costing(self):
        """Count the time of a block as the cost of watching."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.cost += time.perf_counter() - began

    @contextlib.contextmanager
    def span(self, kind):
        """Add a span of this kind around a block of the program."""
        begin, line = self.now(), self.line()
        try:
            yield
        finally:
            self.add("span", kind, begin, self.now(), line)

    def flush(self):
        """Append what has been added to the file."""
        events, self.events = self.events, []
        if events:
            with contextlib.suppress(OSError), open(self.path, "ab") as file:
                pickle.dump(events, file)


def source_of(filename, line) -> str:
    import linecache

    return linecache.getline(filename, line).strip()


@functools.cache
def is_hidden(filename) -> bool:
    """Return whether a file belongs to a library, or to whoever watches."""
    from ..ranks.call_stack import is_library

    return is_library(filename)


def safely(function):
    """Return an instrument that never raises: a program goes on as if nobody watched."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception:
            return None

    return guarded


def is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def read_events(path):
    """Return all events of a trace, as far as they were written."""
    events = []
    with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError), open(path, "rb") as file:
        while True:
            events += pickle.load(file)
    return events

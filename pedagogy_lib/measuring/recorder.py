"""`measure`: time, wire bytes and tensor memory of a block inside a rank's function."""

import contextlib
import sys
import threading
import time

import torch
import torch.distributed as dist

from ..basics.errors import LaunchError, WrongInput
from ..basics.units import brief
from .card_bytes import CardCounter
from .connections import Connections
from .memory_log import KINDS, Log, peaks_of, thin_out
from .memory_tracker import MemoryTracker
from .uses import LogSlice, OpenUse, Use
from .wire_bytes import bytes_between, kernel_counts, wire_bytes

MANY_EVENTS = 20_000  # in logs whose peaks are not computed yet

_recorder = None


def measure(label: str, memory: bool = True, wire: bool = True) -> "MeasureContext":
    """Measure a block inside a function that `launch` runs; blocks may be nested.

    The figures of all ranks are in `run[label]` afterwards: `.seconds[rank]`, `.sent_bytes[rank]`
    and so on, and `.peak_bytes[rank]` is {kind: bytes, …, "total": bytes}, or None. Kinds are
    parameters, gradients, optimizer_state, activations, communication and other. Each has its own
    peak, and "total" is the highest sum, so the kinds may add up to more. If a label is used
    several times, bytes and seconds add up, and the highest peak counts. If a block contains blocks
    of its own label, only the outermost counts.

    memory   follow every tensor of this thread (10 to 100 µs per operation). `False` leaves that
             out, for blocks of very many small operations and for `torch.func` transforms, which do
             not allow it; where bytes are measured, there are then no `peak_bytes` and no `calls`
    wire     read the counters of all connections when the block begins and ends. `False` leaves
             that out, for blocks of microseconds; where bytes are measured, `sent_bytes` and
             `received_bytes` are then 0
    Raises   LaunchError outside a launch, and for a label that is no text
    """
    if _recorder is None:
        raise LaunchError(
            "measure() works inside a function that launch() runs: put the `with` into a function, "
            "and give that to launch()"
        )
    if not isinstance(label, str):
        raise LaunchError(
            f'the label of a block is a text, as in measure("step"), not {brief(label)}'
        )
    return MeasureContext(label, memory, wire)


class MeasureContext(contextlib.ContextDecorator):
    """The context that `measure` returns, which may be kept and entered again."""

    def __init__(self, label, memory, wire):
        self.label, self.memory, self.wire = label, memory, wire

    def __enter__(self):
        _recorder.enter(self.label, self.memory, self.wire)

    def __exit__(self, kind, error, traceback):
        _recorder.note_failure(error, self.label)
        _recorder.leave(self.label)


def mark(tensor: torch.Tensor, kind: str) -> torch.Tensor:
    """Tell the memory tracker what a tensor of a hand-written engine is; return the tensor.

    kind  "parameters", "gradients", "optimizer_state", "activations", "communication" or "other"
    """
    if kind not in KINDS:
        raise WrongInput(f"kind is one of {', '.join(KINDS)}, not {kind!r}")
    if _recorder is not None:
        _recorder.tracker.mark(tensor, kind)
    return tensor


def traffic_in(label: str) -> tuple[list, int, int]:
    """Return this rank's calls, bytes sent and bytes received in the ended blocks of a label."""
    uses = [use for use in _recorder.uses if use.label == label]
    calls = [call for use in uses for call in use.calls]
    return calls, sum(use.sent_bytes for use in uses), sum(use.received_bytes for use in uses)


def peak_bytes_in(label: str) -> dict[str, int]:
    """Return this rank's peak bytes by kind, and of all ("total"), in a label's ended blocks."""
    _recorder.work_out_memory()
    peaks = [use.peak for use in _recorder.uses if use.label == label]
    return {kind: max(peak[kind] for peak in peaks) for kind in (*KINDS, "total")}


def block_of(error: BaseException | None = None) -> str:
    """Return the label of the innermost block that an error has left, or an empty text.

    Without an error, return that of the innermost block that is open in the main thread.
    """
    if _recorder is None:
        return ""
    if error is None:
        return _recorder.innermost_open(threading.main_thread().ident)
    number, label = _recorder.failure
    return label if number == id(error) else ""


@contextlib.contextmanager
def note_slowdown(text: str):
    """Note, in blocks measured inside the `with` block, how links or computing are slowed down."""
    before = _recorder.slowed_by
    _recorder.slowed_by = f"{before}; {text}" if before else text
    _recorder.ways_of_slowing.append(_recorder.slowed_by)
    try:
        yield
    finally:
        _recorder.slowed_by = before


def start(
    device: torch.device, clock_zero: float, ignore_ports=(), cards=None, before_block=None
) -> "Recorder":
    """Begin to record in this process, just before the learner's function is called.

    clock_zero    the time that spans count from, by `time.perf_counter()`
    ignore_ports  peers' ports whose traffic is not the learner's: torchrun's own
    cards         the names of this machine's network cards, if it is an emulated one
    before_block  called with the label of each block that is about to begin
    """
    global _recorder
    _recorder = Recorder(device, clock_zero, ignore_ports, cards, before_block)
    return _recorder


class Recorder:
    """The recorder of everything that is measured in one rank."""

    def __init__(self, device, clock_zero, ignore_ports, cards=None, before_block=None):
        self.device, self.clock_zero, self.ignore_ports = device, clock_zero, ignore_ports
        self.card = CardCounter(cards) if cards else None
        self.before_block = before_block
        self.tracker = MemoryTracker()
        self.uses: list[Use] = []
        self.open: dict[tuple[str, int], OpenUse] = {}  # by label and thread
        self.logs: list[tuple[Log, list[LogSlice]]] = []  # whose peaks are not computed yet
        self.waiting_events = 0  # in these logs
        self.slowed_by = ""  # how links, or computing, are slowed down now
        self.ways_of_slowing: list[str] = []  # all of them so far
        self.covered: list[LogSlice] = []  # within the outermost block that is open
        self.followed_thread = None  # whose operations the tracker sees
        # The last error's id(), and the block that it left first. The error itself is not kept: its
        # traceback would keep a process group alive, and the group's connections open.
        self.failure = 0, ""
        gloo_carries_it = device.type == "cpu" or (  # a replacement has no group yet
            dist.is_initialized() and "nccl" not in dist.get_backend_config()
        )
        self.wire = "measured" if kernel_counts() and gloo_carries_it else "counted"
        self.connections = Connections() if self.wire == "measured" else None

    def enter(self, label, memory, wire):
        key = label, threading.get_ident()
        if sys.exc_info()[0] is None:  # the last failure is over; another may get its id()
            self.failure = 0, ""
        if key not in self.open:
            if self.before_block is not None:
                self.before_block(label)
            self.open[key] = self.begin(label, memory, wire)
        self.open[key].depth += 1

    def leave(self, label):
        key = label, threading.get_ident()
        if key not in self.open:  # another thread entered
            key = next((other for other in self.open if other[0] == label), None)
        if key is None:
            raise LaunchError(f"the block {label!r} is not open: leave it as often as you enter it")
        self.open[key].depth -= 1
        if self.open[key].depth == 0:
            self.end(self.open.pop(key))

    def note_failure(self, error, label):
        if error is not None and self.failure[0] != id(error):
            self.failure = id(error), label

    def innermost_open(self, thread) -> str:
        labels = [label for label, of_thread in list(self.open) if of_thread == thread]
        return labels[-1] if labels else ""

    def leave_all(self):
        """End the blocks that the learner's function has left open, such as one in a generator."""
        for use in reversed(self.open.values()):
            self.end(use)
        self.open.clear()

    def begin(self, label, memory, wire) -> OpenUse:
        tracker = self.tracker
        # Counting from the calls needs the tracker, too, because it sees them.
        follows = memory or (wire and self.wire == "counted")
        is_outermost = bool(follows and not tracker.active)
        if is_outermost:
            tracker.start()
            self.covered, self.followed_thread = [], threading.get_ident()
        return OpenUse(
            label=label,
            depth=0,
            is_outermost=is_outermost,
            log=tracker.log,
            first_event=len(tracker.log),
            first_call=len(tracker.calls),
            slowed_by=self.slowed_by,
            first_way=len(self.ways_of_slowing),
            wire=self.wire_bytes() if wire else None,
            card=self.card.read() if wire and self.card else None,
            start=self.now(),  # last, as all of the above takes a while
        )

    def end(self, use: OpenUse):
        end = self.now()
        before, after = use.wire or {}, self.wire_bytes() if use.wire is not None else {}
        sent, received = bytes_between(before, after)
        # A block in another thread is not followed, or may end under another log than it began.
        followed = use.log is self.tracker.log and threading.get_ident() == self.followed_thread
        calls = self.tracker.calls[use.first_call :] if followed else []
        if self.wire == "counted":
            sent = sum(call.sent_bytes or 0 for call in calls)
            received = sum(call.received_bytes or 0 for call in calls)
        # A slowdown that began inside the block counts, too.
        links = use.slowed_by or "".join(self.ways_of_slowing[use.first_way :][:1])
        card = None if use.card is None else (use.card, self.card.read())
        flows = self.connections.flows(before, after) if after else []
        ended = Use(use.label, use.start, end, sent, received, calls, flows, links, card)
        self.uses.append(ended)
        if followed and self.tracker.active:
            ended.left_out = self.tracker.reasons_of_log()
            self.covered.append(LogSlice(ended, slice(use.first_event, len(use.log) + 1)))
        if use.is_outermost:
            self.end_log(use.log)

    def end_log(self, log):
        self.tracker.stop()
        self.logs.append((log, self.covered))
        self.waiting_events += len(log)
        if self.waiting_events > MANY_EVENTS:
            self.work_out_memory()

    def now(self) -> float:
        """Return the seconds since the launch began, on a clock that a machine's ranks share."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - self.clock_zero

    def wire_bytes(self):
        return wire_bytes(self.ignore_ports) if self.wire == "measured" else {}

    def work_out_memory(self):
        """Turn logs into peaks, but not while something is measured, because it takes a while."""
        for log, covered in [pair for pair in self.logs if not pair[0].is_full]:
            rows, times = log.bytes_by_kind(), log.times() - self.clock_zero
            for use, inside in covered:
                use.peak, use.at_peak = peaks_of(rows[inside])
            outermost, inside = covered[-1]  # ended last
            outermost.memory = thin_out(times[inside], rows[inside])
        self.logs, self.waiting_events = [], 0

    def finish(self) -> list[Use]:
        """Return every use of every label, ready to travel."""
        self.work_out_memory()
        return self.uses

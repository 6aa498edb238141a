"""`measure`: time, wire bytes and tensor memory of a block inside a rank's function."""

import contextlib
import threading
import time

import torch
import torch.distributed as dist

from ..basics.errors import LaunchError
from ..basics.units import brief
from .memory_log import KINDS, Log, peaks_of, thin_out
from .memory_tracker import MemoryTracker
from .wire_bytes import bytes_between, kernel_counts, wire_bytes

MANY_EVENTS = 20_000  # in logs that wait to be worked out

_recorder = None


def measure(label: str, memory: bool = True, wire: bool = True):
    """Measure a block inside a function that `launch` runs; blocks may be nested.

    The figures of all ranks are in `run[label]` afterwards. A label may be used several times:
    bytes and seconds add up, peaks take the highest. Where a block contains blocks of its own
    label, the outermost alone counts.

    memory   follow every tensor of this thread (10 to 100 µs for each operation). `False` leaves
             that out, for blocks of very many small operations, and for `torch.func` transforms,
             which do not allow it; then there are no `peak_bytes` and no `calls`.
    Raises   LaunchError outside of a launch, and for a label that is no text.
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
    return Measured(label, memory, wire)


class Measured(contextlib.ContextDecorator):
    """What `measure` returns; it may be kept and entered again."""

    def __init__(self, label, memory, wire):
        self.label, self.memory, self.wire = label, memory, wire

    def __enter__(self):
        _recorder.enter(self.label, self.memory, self.wire)

    def __exit__(self, *error):
        _recorder.leave(self.label)


def mark(tensor: torch.Tensor, kind: str) -> torch.Tensor:
    """Tell the memory instrument what a tensor of a hand-written engine is; returns the tensor.

    kind  "parameters", "gradients", "optimizer_state", "activations", "communication" or "other"
    """
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not {kind!r}")
    if _recorder is not None:
        _recorder.tracker.mark(tensor, kind)
    return tensor


def traffic_in(label: str) -> tuple[list, int, int]:
    """In a rank: calls, bytes sent and bytes received in the ended blocks of this label."""
    blocks = [block for block in _recorder.blocks if block["label"] == label]
    calls = [call for block in blocks for call in block["calls"]]
    return calls, *(sum(block[way] for block in blocks) for way in ("sent", "received"))


@contextlib.contextmanager
def links_are(text: str):
    """Note in blocks what has been done to the links, or to the speed of computing, meanwhile."""
    before = _recorder.links
    _recorder.links = f"{before}; {text}" if before else text
    _recorder.former_links.append(_recorder.links)
    try:
        yield
    finally:
        _recorder.links = before


def start(device: torch.device, clock_zero: float, ignore_ports=()) -> "Recorder":
    """Begin to record in this process, just before the learner's function is called.

    clock_zero    the time that spans count from, as of `time.perf_counter()`
    ignore_ports  peers whose traffic is not the learner's: torchrun's own
    """
    global _recorder
    _recorder = Recorder(device, clock_zero, ignore_ports)
    return _recorder


class Recorder:
    """Everything measured in one rank."""

    def __init__(self, device, clock_zero, ignore_ports):
        self.device, self.clock_zero, self.ignore_ports = device, clock_zero, ignore_ports
        self.tracker = MemoryTracker()
        self.blocks: list[dict] = []
        self.open: dict[tuple, tuple[dict, int]] = {}  # by label and thread; with its depth
        self.logs: list[tuple[Log, list[dict]]] = []  # each with the blocks that it covers
        self.waiting_events = 0  # in these logs
        self.links = ""  # what slows them down now
        self.former_links: list[str] = []
        self.covered: list[dict] = []  # blocks within the outermost one that is open
        self.followed_thread = None  # whose operations the tracker sees
        gloo_carries_it = "nccl" not in dist.get_backend_config() or device.type == "cpu"
        self.wire = "measured" if kernel_counts() and gloo_carries_it else "counted"

    def enter(self, label, memory, wire):
        key = label, threading.get_ident()
        block, depth = self.open.get(key) or (self.begin(label, memory, wire), 0)
        self.open[key] = block, depth + 1

    def leave(self, label):
        key = label, threading.get_ident()
        if key not in self.open:  # another thread entered
            key = next((other for other in self.open if other[0] == label), None)
        if key is None:
            raise LaunchError(f"the block {label!r} is not open: leave it as often as you enter it")
        block, depth = self.open.pop(key)
        if depth == 1:
            self.end(block)
        else:
            self.open[key] = block, depth - 1

    def leave_all(self):
        """End what the learner's function has left open, such as a block in a generator."""
        for block, _ in reversed(self.open.values()):
            self.end(block)
        self.open.clear()

    def begin(self, label, memory, wire) -> dict:
        tracker = self.tracker
        # Counting from the calls needs the tracker as well: it sees them.
        outermost = (memory or (wire and self.wire == "counted")) and not tracker.active
        if outermost:
            tracker.start()
            self.covered, self.followed_thread = [], threading.get_ident()
        block = {"label": label, "links": self.links or len(self.former_links)}
        block |= {"outermost": outermost, "log": tracker.log, "event": len(tracker.log)}
        block["call"] = len(tracker.calls)
        block["wire"] = self.wire_bytes() if wire else None
        block["start"] = self.now()
        return block

    def end(self, block):
        block["end"] = self.now()
        before, outermost = block.pop("wire"), block.pop("outermost")
        sent, received = (0, 0) if before is None else bytes_between(before, self.wire_bytes())
        log, first_event, first_call = (block.pop(key) for key in ("log", "event", "call"))
        # A block in another thread is not followed, or may end under another log than it began.
        followed = log is self.tracker.log and threading.get_ident() == self.followed_thread
        calls = self.tracker.calls[first_call:] if followed else []
        if self.wire == "measured":
            block |= {"sent": sent, "received": received}
        else:
            block |= {
                "sent": sum(call.sent_bytes for call in calls),
                "received": sum(call.received_bytes for call in calls),
            }
        if isinstance(block["links"], int):  # a link that was slowed down inside of the block
            block["links"] = " ".join(self.former_links[block["links"] :][:1])
        block |= {"calls": calls, "peak": None}
        self.blocks.append(block)
        if followed and self.tracker.active:
            block["log"] = slice(first_event, len(log) + 1)
            self.covered.append(block)
        if outermost:
            self.tracker.stop()
            self.logs.append((log, self.covered))
            self.waiting_events += len(log)
            if self.waiting_events > MANY_EVENTS:
                self.work_out_memory()

    def now(self) -> float:
        """Seconds since the launch began, on a clock that all ranks of a machine share."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - self.clock_zero

    def wire_bytes(self):
        return wire_bytes(self.ignore_ports) if self.wire == "measured" else {}

    def work_out_memory(self):
        """Turn logs into peaks: not while something is measured, as it takes a while."""
        for log, blocks in [pair for pair in self.logs if not pair[0].is_full]:
            rows, times = log.bytes_by_kind(), log.times() - self.clock_zero
            for block in blocks:
                block["peak"], block["at_peak"] = peaks_of(rows[block["log"]])
            outermost = blocks[-1]  # ended last
            inside = outermost["log"]
            outermost["memory"] = thin_out(times[inside], rows[inside])
        self.logs, self.waiting_events = [], 0

    def finish(self) -> list[dict]:
        """Every block, ready to travel."""
        self.work_out_memory()
        return self.blocks

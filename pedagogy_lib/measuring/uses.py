"""The notes of a rank on each use of a label, while its block is open and after its end."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .bytes_of_calls import Call
from .connections import Flow
from .memory_log import Log


@dataclass
class OpenUse:
    """A block that has been entered, and the state of all counters when it began.

    depth         how often its label has been entered and not left: blocks inside count with it
    is_outermost  whether the memory tracker has been started for it
    log           the tracker's log; `first_event` is the index in it of the first event inside
    first_call    the index of the first call inside among those that the tracker has seen
    slowed_by     how links, or computing, were slowed down; empty if they were not
    first_way     the index of the first way of slowing down that begins inside
    wire          bytes (sent, received) of each connection; None if the block's do not count
    card          bytes (sent, received) of this machine's network card; None if it has none
    start         seconds since the launch began
    """

    label: str
    depth: int
    is_outermost: bool
    log: Log
    first_event: int
    first_call: int
    slowed_by: str
    first_way: int
    wire: dict[int, tuple[int, int]] | None
    card: tuple[int, int] | None
    start: float


@dataclass
class Use:
    """A block that has ended on one rank, as it travels to the notebook.

    start, end  seconds since the launch began
    left_out    why its memory is not counted: what the tracker could not follow
    flows       bytes that each connection has carried, where the kernel counts them
    links       how links, or computing, were slowed down meanwhile; empty if they were not
    card        bytes (sent, received) of this machine's card at its start, and at its end; or None
    peak        the most bytes of each kind, and of their sum ("total"); None if not tracked
    at_peak     bytes of each kind when the sum was highest; None if not tracked
    memory      times and bytes of each kind, for an outermost block whose memory was tracked
    """

    label: str
    start: float
    end: float
    sent_bytes: int
    received_bytes: int
    calls: list[Call] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    links: str = ""
    card: tuple[tuple[int, int], tuple[int, int]] | None = None
    peak: dict[str, int] | None = None
    at_peak: dict[str, int] | None = None
    memory: tuple[np.ndarray, np.ndarray] | None = None
    left_out: list[str] = field(default_factory=list)


class LogSlice(NamedTuple):
    """A use that a log of memory covers, and its rows of `Log.bytes_by_kind`."""

    use: Use
    rows: slice

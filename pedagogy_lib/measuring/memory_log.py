"""A log of what happened to storages while a block was measured, and the peaks it gives."""

import time

import numpy as np

from ..basics.screen import say

MOST_EVENTS = 500_000  # in one log: some 100 MB, and as much again to compute the peaks
TOO_MANY = (
    f"measure: in this block memory has changed {MOST_EVENTS:,} times, too often to keep, so it "
    "will have no peaks. Measure a few steps of it, or pass memory=False."
)
# A storage that has several roles counts as the first of these.
KINDS = ("parameters", "gradients", "optimizer_state", "activations", "communication", "other")


class Log:
    """The events of some storages, in order.

    An event is (time, storage, what). If `what` is a number, it is the storage's size in bytes from
    then on, and the first one is its birth; a text is its kind from then on; None means that it is
    freed. The kinds at birth are in `birth_kinds`, because they may become known only later.
    """

    def __init__(self):
        self.events: list[tuple[float, object, int | str | None]] = []
        self.birth_kinds: dict[object, str] = {}
        self.is_full = False

    def __len__(self):
        return len(self.events)

    def add(self, storage, what):
        if len(self.events) < MOST_EVENTS:
            self.events.append((time.perf_counter(), storage, what))
        elif not self.is_full:
            self.is_full = True
            say(TOO_MANY)

    def bytes_by_kind(self) -> np.ndarray:
        """Return bytes: a row before the first event and after each one, a column for each kind."""
        column = {kind: index for index, kind in enumerate(KINDS)}
        changes = np.zeros((len(self) + 1, len(KINDS)), dtype=np.int64)
        now = {}
        for row, (_, storage, what) in enumerate(self.events, start=1):
            kind, size = now.pop(storage, None) or (self.birth_kinds.get(storage, "other"), 0)
            changes[row, column[kind]] -= size
            if what is None:
                continue
            kind, size = (what, size) if isinstance(what, str) else (kind, what)
            changes[row, column[kind]] += size
            now[storage] = kind, size
        return changes.cumsum(axis=0)

    def times(self) -> np.ndarray:
        """Return the time of each row of `bytes_by_kind`."""
        times = [event[0] for event in self.events]
        return np.array([*times[:1], *times])


def peaks_of(rows) -> tuple[dict[str, int], dict[str, int]]:
    """Return the peaks of each kind and of their sum, and each kind's bytes at the highest sum."""
    totals = rows.sum(axis=1)
    highest = dict(zip(KINDS, rows.max(axis=0).tolist()))
    at_peak = dict(zip(KINDS, rows[totals.argmax()].tolist()))
    return highest | {"total": int(totals.max())}, at_peak


def thin_out(times, rows, points=400):
    """Return about `points` of the rows: the first, the last, and the highest of each stretch."""
    if len(times) <= points:
        return times, rows
    totals = rows.sum(axis=1)
    stretches = np.array_split(np.arange(len(totals)), points)
    highest = [stretch[totals[stretch].argmax()] for stretch in stretches]
    keep = np.unique([0, *highest, len(totals) - 1])
    return times[keep], rows[keep]

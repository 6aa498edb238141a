"""Timelines of pipeline schedules: when each action would happen, or when it did happen.

A schedule is a list of rows, one per rank; a row is a list of actions (kind, microbatch, chunk) in
their order. The kinds are "F" for forward and "B" for backward; "I" and "W" are its halves, the
gradients of the input and of the weights. Chunk c of rank r is stage c * ranks + r of the model;
simulate() takes other placements.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from ..basics.errors import BriefError, WrongInput
from ..basics.units import brief, format_seconds, full_number

LABELS = {"F": "forward", "B": "backward", "I": "input gradients", "W": "weight gradients"}


class ScheduleError(BriefError, ValueError):
    """A schedule that cannot run; the message says why, in words."""


@dataclass
class Timeline:
    """The times at which each rank did, or would do, the actions of its row.

    spans       [[(start, end), …] for each rank], from the first start, in `unit`
    note        origin of the times: "simulated" or "measured"
    unit        unit of the times: "s", or "forwards" where a forward takes 1
    conditions  slowdowns in force during the measurement, in words
    """

    rows: list[list]
    spans: list[list[tuple[float, float]]]
    note: str = "simulated"
    unit: str = "s"
    conditions: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        return len(self.rows)

    @cached_property
    def seconds(self) -> float:
        """The time from the first start to the last end, in `unit`."""
        return max((end for spans in self.spans for _, end in spans), default=0.0)

    @cached_property
    def chunks(self) -> int:
        """The most chunks of one rank that a micro-batch goes through."""
        pieces = {(rank, i, chunk) for rank, row in enumerate(self.rows) for _, i, chunk in row}
        return max(Counter((rank, i) for rank, i, _ in pieces).values(), default=1)

    @cached_property
    def busy_seconds(self) -> list[float]:
        """The time that each rank spent in its actions."""
        return [sum(end - start for start, end in spans) for spans in self.spans]

    @property
    def idle_share(self) -> float:
        """The bubble as a share of the whole: the part of all ranks' time that was idle."""
        whole = self.ranks * self.seconds
        return 1 - sum(self.busy_seconds) / whole if whole else 0.0

    @property
    def overhead(self) -> float:
        """The bubble relative to the ideal: idle time per second of work."""
        busy = sum(self.busy_seconds)
        return self.ranks * self.seconds / busy - 1 if busy else 0.0

    @cached_property
    def most_kept(self) -> list[int]:
        """The most micro-batches that each rank keeps at a time, over all its chunks."""
        return [max(count_in_flight(row), default=0) for row in self.rows]

    @property
    def length(self) -> str:
        """The duration of the whole timeline as text, with its unit."""
        if self.unit == "s":
            return format_seconds(self.seconds)
        return f"{full_number(round(self.seconds, 2))} {self.unit}"

    def __repr__(self):
        return (
            f"{self.note}: {self.length}; idle {self.idle_share:.1%} of the "
            f"whole, which is {self.overhead:.1%} over the ideal; at most {self.most_kept} "
            "micro-batches kept"
        )


def text_of(kind, microbatch, chunk=0) -> str:
    return f"{kind}{microbatch}" + (f".{chunk}" if chunk else "")


def count_in_flight(row) -> list[int]:
    """Count the micro-batches that a rank keeps after each of its actions."""
    return list(accumulate((kind == "F") - (kind in "BW") for kind, *_ in row))


def parse_schedule(rows) -> list[list[tuple]]:
    """Return the rows with actions of three parts; raise ScheduleError if one is no action."""
    if isinstance(rows, (str, dict)) or not hasattr(rows, "__iter__"):
        raise ScheduleError(f"a schedule is a list of rows, one for each rank, not {brief(rows)}")
    return [parse_row(rank, row) for rank, row in enumerate(rows)]


def parse_row(rank, row) -> list[tuple]:
    if isinstance(row, (str, dict)) or not hasattr(row, "__iter__") or hasattr(row, "_fields"):
        raise ScheduleError(
            f"the row of rank {rank} is {row!r:.60}: a row is a list of actions, and a schedule a "
            "list of rows, one for each rank"
        )
    row = list(row)
    if are_actions(row):
        return list(map(tuple, row))
    return [parse_action(rank, number, action) for number, action in enumerate(row, 1)]


def are_actions(row) -> bool:
    """Return whether all actions are valid and have three parts: a quick check for long rows."""
    if not all(isinstance(action, tuple) and len(action) == 3 for action in row):
        return False
    kinds, *numbers = zip(*row) if row else ((), ())
    if not all(set(map(type, part)) <= {int} and min(part, default=0) >= 0 for part in numbers):
        return False
    return set(map(type, kinds)) <= {str} and set(kinds) <= set(LABELS)


def parse_action(rank, number, action) -> tuple[str, int, int]:
    if isinstance(action, tuple) and len(action) in (2, 3):
        kind, microbatch, chunk = (*action, 0)[:3]
        if isinstance(kind, str) and kind in LABELS and is_number(microbatch) and is_number(chunk):
            return kind, microbatch, chunk
    raise ScheduleError(
        f"number {number} in the row of rank {rank} is {action!r}: an action is like "
        f'Action("F", 0), with one of the kinds {", ".join(LABELS)} and a micro-batch from 0 on'
    )


def is_number(x) -> bool:
    return isinstance(x, int) and x >= 0


# ---- Measured timelines ------------------------------------------------------------------------


def timeline_of(run, rows) -> Timeline:
    """Make the timeline of a run: when its ranks did the actions of their rows.

    The times are those of the run's blocks "forward", "backward", …, in the rows' order; see
    `paced`. If the run has several steps, the last one counts.

    Raises  LaunchError if there are fewer blocks than actions
    """
    rows = parse_schedule(rows)
    found = [spans_of_rank(run, rank, row) for rank, row in enumerate(rows)]
    start = min((span[0] for spans in found for span in spans), default=0.0)
    spans = [[(begin - start, end - start) for begin, end in of_rank] for of_rank in found]
    said = [part for label in run.labels for part in run[label].links.split("; ") if part]
    return Timeline(rows, spans, "measured", conditions=tuple(dict.fromkeys(said)))


def spans_of_rank(run, rank, row) -> list[tuple[float, float]]:
    labels = [label for label in LABELS.values() if label in run.labels]
    ran = rank < run.world_size
    spans = sorted(span for label in labels if ran for span in run[label].spans[rank])
    if len(spans) < len(row):
        raise WrongInput(
            f"rank {rank} has {len(row)} actions, but {len(spans)} were measured: run the same "
            "schedule in a pipeline with around=paced()"
        )
    return spans[len(spans) - len(row) :]

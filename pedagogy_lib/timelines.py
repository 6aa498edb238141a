"""Schedules of pipelines as timelines: when each action would happen, and when it did.

A schedule is a list of rows, one for each rank; a row is a list of actions (kind, microbatch,
chunk), in their order. Kinds: "F" forward, "B" backward; "I" and "W" its halves, the gradients of
the input and those of the weights. Chunk c of rank r is stage c * ranks + r of the model.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from .errors import LaunchError

LABELS = {
    "F": "forward", "B": "backward", "I": "input gradients", "W": "weight gradients",
}  # fmt: skip
EVEN = {"F": 1.0, "B": 2.0, "I": 1.0, "W": 1.0}  # a backward is twice the work of a forward


class ScheduleError(ValueError):
    """A schedule that cannot run; the message says why, in words."""


@dataclass
class Timeline:
    """When each rank did each action of its row.

    spans   [[(start, end), …] for each rank], in seconds from the first start
    note    how the times came about: "ideal", "measured", …
    """

    rows: list[list]
    spans: list[list[tuple[float, float]]]
    note: str = "ideal"
    arrivals: dict = field(default_factory=dict, repr=False)

    @property
    def ranks(self) -> int:
        return len(self.rows)

    @property
    def seconds(self) -> float:
        """From the first start to the last end."""
        return max((end for spans in self.spans for _, end in spans), default=0.0)

    @property
    def busy_seconds(self) -> list[float]:
        """What each rank spent in its actions."""
        return [sum(end - start for start, end in spans) for spans in self.spans]

    @property
    def idle_share(self) -> float:
        """The bubble as a share of the whole: of all ranks' time, how much was idle."""
        return 1 - sum(self.busy_seconds) / (self.ranks * self.seconds)

    @property
    def overhead(self) -> float:
        """The bubble over the ideal: idle time for each second of work."""
        return self.ranks * self.seconds / sum(self.busy_seconds) - 1

    @property
    def most_kept(self) -> list[int]:
        """The most micro-batches that each rank keeps at a time, over all its chunks."""
        return [max(kept_after(row), default=0) for row in self.rows]

    def __repr__(self):
        return (
            f"{self.note}: {self.seconds:.4g} s; idle {self.idle_share:.1%} of the whole, which is "
            f"{self.overhead:.1%} over the ideal; at most {self.most_kept} micro-batches kept"
        )


def kept_after(row) -> list[int]:
    """How many micro-batches a rank keeps after each of its actions."""
    kept, counts = 0, []
    for kind, *_ in row:
        kept += (kind == "F") - (kind in "BW")
        counts.append(kept)
    return counts


def as_actions(rows) -> list[list[tuple]]:
    """The rows with actions of three parts; raises ScheduleError where something is no action."""
    return [
        [as_action(rank, number, action) for number, action in enumerate(row, 1)]
        for rank, row in enumerate(rows)
    ]


def as_action(rank, number, action) -> tuple[str, int, int]:
    if isinstance(action, tuple) and len(action) in (2, 3):
        kind, microbatch, chunk = (*action, 0)[:3]
        if kind in LABELS and all(isinstance(x, int) and x >= 0 for x in (microbatch, chunk)):
            return kind, microbatch, chunk
    raise ScheduleError(
        f"number {number} in the row of rank {rank} is {action!r}: an action is like "
        f'Action("F", 0), with one of the kinds {", ".join(LABELS)} and a micro-batch from 0 on'
    )


def simulate(rows, seconds=EVEN, link_seconds=0.0, waits=False) -> Timeline:
    """When each action would happen on ranks that do nothing else.

    An action begins when its rank is done with the one before it and what it needs is there.

    seconds       {kind: what it takes}: a number, or a list with one for each stage of the model
    link_seconds  that a message from rank to rank occupies its sender's link
    waits         whether the sender waits meanwhile, or goes on
    Raises        ScheduleError if some action's need never comes
    """
    rows = as_actions(rows)
    ranks = len(rows)
    last = max((chunk * ranks + rank for rank, row in enumerate(rows) for _, _, chunk in row), default=0)
    takes = {(kind, stage): of_stage(seconds, kind, stage) for kind in LABELS for stage in range(last + 1)}
    there, waiting = {}, defaultdict(list)  # what is there since when; who waits for what
    clock, link_free, spans = [0.0] * ranks, [0.0] * ranks, [[] for _ in rows]
    to_do = list(range(ranks))
    while to_do:
        rank = to_do.pop()
        for kind, microbatch, chunk in rows[rank][len(spans[rank]) :]:
            stage = chunk * ranks + rank
            need = need_of(kind, microbatch, stage, last)
            if need is not None and need not in there:
                waiting[need].append(rank)
                break
            start = max(clock[rank], there.get(need, 0.0))
            end = clock[rank] = start + takes[kind, stage]
            spans[rank].append((start, end))
            made, to_rank = result_of(kind, microbatch, stage, last, ranks)
            if made is None:
                continue
            if to_rank not in (rank, None):
                end = link_free[rank] = max(end, link_free[rank]) + link_seconds
                clock[rank] = end if waits else clock[rank]
            there[made] = end
            to_do += waiting.pop(made, [])
    return Timeline(rows, spans)


def of_stage(seconds, kind, stage) -> float:
    one = seconds.get(kind, 0.0)
    return one[stage] if isinstance(one, (list, tuple)) else one


def need_of(kind, microbatch, stage, last):
    """What an action needs from another rank, or from this one's chunk before; None: nothing."""
    if kind == "F":
        return ("F", microbatch, stage - 1) if stage else None
    if kind == "W":
        return None
    return ("B", microbatch, stage + 1) if stage < last else None


def result_of(kind, microbatch, stage, last, ranks):
    """What an action makes for another one, and on which rank that is; None for nobody."""
    if kind == "F":
        return ("F", microbatch, stage), (stage + 1) % ranks if stage < last else None
    if kind == "W":
        return None, None
    return ("B", microbatch, stage), (stage - 1) % ranks if stage else None


def timeline_of(run, rows) -> Timeline:
    """When the ranks of a run really did the actions of their rows.

    The run's blocks "forward", "backward", … are their times, in the rows' order: see `paced`. Of
    several steps the last one counts.

    Raises  LaunchError if there are fewer blocks than actions
    """
    rows = as_actions(rows)
    found = [spans_of_rank(run, rank, row) for rank, row in enumerate(rows)]
    start = min(span[0] for spans in found for span in spans)
    spans = [[(begin - start, end - start) for begin, end in of_rank] for of_rank in found]
    said = sorted({run[label].links for label in run.labels if run[label].links})
    return Timeline(rows, spans, "; ".join(["measured", *said]))


def spans_of_rank(run, rank, row) -> list[tuple[float, float]]:
    labels = [label for label in LABELS.values() if label in run.labels]
    spans = sorted(span for label in labels for span in run[label].spans[rank])
    if rank >= run.world_size or len(spans) < len(row):
        raise LaunchError(
            f"rank {rank} has {len(row)} actions, but {len(spans)} were measured: run the same "
            "schedule in a pipeline with around=paced()"
        )
    return spans[len(spans) - len(row) :]

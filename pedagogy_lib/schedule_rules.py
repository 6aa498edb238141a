"""Whether a schedule of a pipeline can run: the first thing that is wrong with it, in words."""

from __future__ import annotations

from .timelines import ScheduleError, as_actions, kept_after, need_of, simulate


def text_of(kind, microbatch, chunk=0) -> str:
    return f"{kind}{microbatch}" + (f".{chunk}" if chunk else "")


def check_schedule(rows, microbatches=None, most_kept=None):
    """Raise ScheduleError with the first offence of a schedule, rank by rank; None if all is well.

    microbatches  how many there are; by default as many as the rows know
    most_kept     how many each rank may keep at a time: a number, or a list with one for each
    """
    rows = as_actions(rows)
    if not rows:
        raise ScheduleError("a schedule has at least one row: that of rank 0")
    if microbatches is None:
        microbatches = 1 + max((i for row in rows for _, i, _ in row), default=-1)
    chunks = 1 + max((chunk for row in rows for _, _, chunk in row), default=0)
    for rank, row in enumerate(rows):
        check_row(rank, row)
        check_complete(rank, row, microbatches, chunks)
    check_progress(rows)
    if most_kept is not None:
        for rank, row in enumerate(rows):
            check_kept(rank, row, most_kept[rank] if isinstance(most_kept, list) else most_kept)


def check_row(rank, row):
    """Each action at most once, and after the one that it needs on this rank."""
    done = set()
    for kind, i, chunk in row:
        name = text_of(kind, i, chunk)
        if (kind, i, chunk) in done:
            raise ScheduleError(f"rank {rank} does {name} twice")
        if kind != "F" and ("F", i, chunk) not in done:
            raise ScheduleError(
                f"rank {rank} does {name} before {text_of('F', i, chunk)}: a backward needs what "
                "its forward has kept"
            )
        if kind == "W" and ("I", i, chunk) not in done:
            raise ScheduleError(
                f"rank {rank} does {name} before {text_of('I', i, chunk)}: the gradients of the "
                "weights need what the first half of the backward has computed"
            )
        if kind in "BI" and ({"B", "I"} - {kind}).pop() in {k for k in "BI" if (k, i, chunk) in done}:
            raise ScheduleError(
                f"rank {rank} does both {text_of('B', i, chunk)} and {text_of('I', i, chunk)}: I "
                "is the first half of B"
            )
        done.add((kind, i, chunk))


def check_complete(rank, row, microbatches, chunks):
    """Every micro-batch goes forward and back on every chunk; and no other one does."""
    done = set(row)
    for chunk in range(chunks):
        for i in range(microbatches):
            if ("F", i, chunk) not in done:
                raise ScheduleError(f"rank {rank} never does {text_of('F', i, chunk)}")
            if not {("B", i, chunk), ("I", i, chunk)} & done:
                raise ScheduleError(f"rank {rank} never does {text_of('B', i, chunk)}")
            if ("I", i, chunk) in done and ("W", i, chunk) not in done:
                raise ScheduleError(
                    f"rank {rank} does {text_of('I', i, chunk)}, but never {text_of('W', i, chunk)}"
                )
    for kind, i, chunk in row:
        if i >= microbatches:
            raise ScheduleError(
                f"rank {rank} does {text_of(kind, i, chunk)}: there are {microbatches} "
                f"micro-batches, from 0 to {microbatches - 1}"
            )


def check_progress(rows):
    """Nobody waits for ever: for what comes only after it."""
    spans = simulate(rows).spans
    stuck = {rank: row[len(done)] for rank, (row, done) in enumerate(zip(rows, spans)) if len(done) < len(row)}
    if not stuck:
        return
    ranks = len(rows)
    last = max(chunk * ranks + rank for rank, row in enumerate(rows) for _, _, chunk in row)
    lines = []
    for rank, (kind, i, chunk) in stuck.items():
        _, _, stage = need_of(kind, i, chunk * ranks + rank, last)
        needed = text_of(kind, i, stage // ranks) if kind == "F" else text_of("B", i, stage // ranks)
        lines.append(f"rank {rank} waits at {text_of(kind, i, chunk)} for {needed} of rank {stage % ranks}")
    raise ScheduleError("nobody can go on: " + "; ".join(lines))


def check_kept(rank, row, allowed):
    for action, kept in zip(row, kept_after(row)):
        if kept > allowed:
            raise ScheduleError(
                f"rank {rank} keeps {kept} micro-batches after {text_of(*action)}; at most "
                f"{allowed} are allowed"
            )

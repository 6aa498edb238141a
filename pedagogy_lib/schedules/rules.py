"""Rules that a pipeline schedule has to obey to run; the first mistake is reported in words."""

from .simulations import are_copies, simulate, stages_of
from .timelines import ScheduleError, count_in_flight, parse_schedule, text_of


def check_schedule(rows, microbatches=None, most_kept=None, stages=None):
    """Raise ScheduleError with the first mistake in a schedule, rank by rank.

    rows          one list per rank: its actions (kind, microbatch) or (kind, microbatch, chunk) in
                  their order, with the kinds of `timelines.LABELS`
    microbatches  number of micro-batches; by default as many as the rows name
    most_kept     most micro-batches that a rank may keep at a time: a number, or a list with one
                  per rank
    stages        the stages of the model on each rank, as for simulate()
    """
    rows = parse_schedule(rows)
    if not rows:
        raise ScheduleError("a schedule has at least one row: that of rank 0")
    if microbatches is None:
        microbatches = 1 + max((i for row in rows for _, i, _ in row), default=-1)
    ways = ways_of(rows, microbatches, stages)
    for rank, row in enumerate(rows):
        check_row(rank, row, microbatches)
        check_complete(rank, row, ways)
    simulate(rows, stages=stages)  # raises at a deadlock
    if most_kept is not None:
        for rank, row in enumerate(rows):
            allowed = most_kept[rank] if isinstance(most_kept, (list, tuple)) else most_kept
            check_kept(rank, row, allowed)


def check_row(rank, row, microbatches):
    """Check that each action occurs once, has a valid micro-batch and comes after what it needs."""
    done = set()
    for action in row:
        fault = fault_of(action, done, microbatches)
        if fault:
            raise ScheduleError(f"rank {rank} does {text_of(*action)}{fault}")
        done.add(action)


def fault_of(action, done, microbatches) -> str:
    """Return the fault of an action on a rank that has `done` others before, or "" without one."""
    kind, i, chunk = action
    forward, first_half = ("F", i, chunk), ("I", i, chunk)
    if action in done:
        return " twice"
    if i >= microbatches:
        return f": there are {microbatches} micro-batches, from 0 to {microbatches - 1}"
    if kind != "F" and forward not in done:
        return f" before {text_of(*forward)}: a backward needs what its forward has kept"
    if kind == "W" and first_half not in done:
        return (
            f" before {text_of(*first_half)}: the gradients of the weights need what the first "
            "half of the backward has computed"
        )
    whole_or_half = {"B": "I", "I": "B"}.get(kind)
    if (whole_or_half, i, chunk) in done:
        return f" and {text_of(whole_or_half, i, chunk)}, both: I is the first half of B"
    return ""


def ways_of(rows, microbatches, stages=None) -> list[list[int]]:
    """Return the chunks that each micro-batch goes through: all, or one copy of the model.

    If each chunk is a copy of the model, the micro-batch's first action on rank 0 names its copy.
    """
    chunks = list(range(1 + max((chunk for row in rows for _, _, chunk in row), default=0)))
    if not are_copies(stages_of(rows, stages)):
        return [chunks] * microbatches
    copies = {i: [chunk] for _, i, chunk in reversed(rows[0])}
    return [copies.get(i, chunks[:1]) for i in range(microbatches)]


def check_complete(rank, row, ways):
    """Check that every micro-batch goes forward and back on all chunks of its way, and no other."""
    done = set(row)
    for action in row:
        _, i, chunk = action
        if chunk not in ways[i]:
            raise ScheduleError(
                f"rank {rank} does {text_of(*action)}, but on rank 0 micro-batch {i} begins on "
                f"chunk {ways[i][0]}: it goes through one copy of the model"
            )
    for i, way in enumerate(ways):
        for chunk in way:
            forward, whole, first, second = ((kind, i, chunk) for kind in "FBIW")
            if forward not in done:
                raise ScheduleError(f"rank {rank} never does {text_of(*forward)}")
            if not {whole, first} & done:
                raise ScheduleError(f"rank {rank} never does {text_of(*whole)}")
            if first in done and second not in done:
                halves = f"{text_of(*first)}, but never {text_of(*second)}"
                raise ScheduleError(f"rank {rank} does {halves}")


def check_kept(rank, row, allowed):
    for action, kept in zip(row, count_in_flight(row)):
        if kept > allowed:
            raise ScheduleError(
                f"rank {rank} keeps {kept} micro-batches after {text_of(*action)}; at most "
                f"{allowed} are allowed"
            )

"""Where the time of a training step goes on each rank, and for whom ranks wait."""

from collections import defaultdict
from statistics import median

from .rank_trace import ProgramTrace

SKIPPED = 2  # first steps, which set things up


def join_intervals(intervals) -> list[tuple[float, float]]:
    """Return the union of intervals as intervals that do not overlap."""
    joined = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        elif end > begin:
            joined.append((begin, end))
    return joined


def seconds_in(intervals, begin, end) -> float:
    """Return how many seconds between two times are covered by intervals that do not overlap."""
    return sum(max(0.0, min(last, end) - max(first, begin)) for first, last in intervals)


def split_steps(one, steps) -> list[dict]:
    """Return seconds in all, of waiting, data, optimizer and computing, of each step of a rank."""
    waits = join_intervals(one.exposed)
    kinds = {
        kind: join_intervals((span.begin, span.end) for span in one.spans_of(kind))
        for kind in ("data", "optimizer", "save")
    }
    found = []
    for step in range(steps):
        begin, end = one.times_of_step(step)
        split = {kind: seconds_in(spans, begin, end) for kind, spans in kinds.items()}
        split["waiting"] = seconds_in(waits, begin, end)
        split["computing"] = max(0.0, end - begin - sum(split.values()))
        found.append(split | {"all": end - begin})
    return found


def typical_step(one, steps) -> dict:
    """Return the medians of a rank's steps, in seconds, without the first ones."""
    split = split_steps(one, steps)
    later = split[min(SKIPPED, max(0, len(split) - 1)) :]
    return {kind: median(step[kind] for step in later) for kind in later[0]} if later else {}


def find_lateness(trace: ProgramTrace) -> dict:
    """Return {(rank, other): seconds that `rank` waits for `other` in the median step}.

    Of each collective, the rank that begins last is the one that all others wait for.
    """
    begun = defaultdict(dict)
    for one in trace:
        for call in one.calls:
            if SKIPPED <= call.step < trace.steps:
                begun[call.group, one.groups[call.group], call.number][one.rank] = call
    late = defaultdict(lambda: defaultdict(float))
    for (_, members, _), of_ranks in begun.items():
        if len(of_ranks) == len(members) > 1:
            last = max(of_ranks, key=lambda rank: of_ranks[rank].begin)
            for rank, call in of_ranks.items():
                late[rank, last][call.step] += of_ranks[last].begin - call.begin
    steps = range(SKIPPED, trace.steps)
    medians = {pair: median(of_steps[step] for step in steps) for pair, of_steps in late.items()}
    return {pair: seconds for pair, seconds in medians.items() if seconds}


def hidden_share(one, steps) -> float | None:
    """Return the share of the time of communication in which a rank did not wait for it."""
    flights = join_intervals(
        (call.begin, one.done[call.group, call.number])
        for call in one.calls
        if 0 < call.step < steps and (call.group, call.number) in one.done
    )
    total = sum(end - begin for begin, end in flights)
    waits = join_intervals(one.exposed)
    exposed = sum(seconds_in(waits, begin, end) for begin, end in flights)
    return None if not total else max(0.0, 1 - exposed / total)

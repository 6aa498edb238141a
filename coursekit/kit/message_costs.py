"""The cost of messages: their bytes, their number, and the rounds that they take."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2

from ..protocol import Wrong

TOLERANCE = 0.005  # share of the bytes, for headers


def need_cost(trial, ok, what, why):
    if not ok:
        raise Wrong(f"cost, {trial.case}", what, why)


def rounds(calls) -> int:
    """Return how many rounds messages take if each rank sends and receives at most one per round.

    calls  each rank's calls in its order: a later call waits for the earlier ones
    """
    clock, last_receive = [0] * len(calls), [0] * len(calls)
    under_way: dict[tuple[int, int], list[int]] = {}
    todo = [(rank, list(of_rank)) for rank, of_rank in enumerate(calls)]
    while ready := [(r, own) for r, own in todo if own and is_there(own[0], r, under_way)]:
        for rank, own in ready:
            call = own.pop(0)
            if call.name == "send":
                clock[rank] += 1
                under_way.setdefault((rank, call.peer), []).append(clock[rank])
            else:
                arrival = first_there(call, rank, under_way).pop(0)
                last_receive[rank] = max(last_receive[rank] + 1, arrival)
                clock[rank] = max(clock[rank], last_receive[rank])
    return max(clock)


def is_there(call, rank, under_way) -> bool:
    return call.name == "send" or bool(first_there(call, rank, under_way))


def first_there(call, rank, under_way) -> list[int]:
    """Return the rounds in which a receive's messages left: its peer's, or the first sender's."""
    if call.peer is not None:
        return under_way.get((call.peer, rank), [])
    some = [times for (_, to), times in under_way.items() if to == rank and times]
    return min(some, default=[])


def tree_rounds(n) -> int:
    return ceil(log2(n))


def is_near(bytes_, theory) -> bool:
    return abs(bytes_ - theory) <= TOLERANCE * theory


def messages(count) -> str:
    return f"{count} message" + ("" if count == 1 else "s")


def megabytes(count) -> str:
    return f"{count / 1e6:.2f} MB"


@dataclass(frozen=True)
class SendLimit:
    """The fact that a rank sends no more than it has to.

    most   takes a trial, and returns bytes; None where there is no limit
    what   the words before the limit
    why    the misconception, or a function that takes a trial and the bytes sent
    calls  the name under which calls are found; without it, those of `measure_answer()` count
    """

    most: Callable
    what: str
    why: str | Callable
    calls: str = ""

    def __call__(self, trial):
        most, found = (
            self.most(trial),
            trial.collect_values(self.calls) if self.calls else trial.calls,
        )
        if most is None or not found:
            return ""
        for place, calls in enumerate(found):
            sent = sum(call.sent_bytes for call in calls)
            if sent > most:
                what = f"{trial.name_of_rank(place)} sends {sent:,} bytes; {self.what} {most:,.0f}"
                why = self.why(trial, sent) if callable(self.why) else self.why
                raise Wrong(f"cost, {trial.case}", what, f"the numbers are right, but {why}")
        return f"cost, {trial.case}: a rank sends {sent:,} bytes" if most else ""


def rounds_of_tree(n) -> int:
    """Count the rounds in which each rank that has the file sends it to one that does not."""
    have, rounds = 1, 0
    while have < n:
        have, rounds = have + min(have, n - have), rounds + 1
    return rounds


def steps_round_ring(n) -> int:
    """Count the steps until all ranks have all parts, if each passes on what it just received."""
    has, steps = [{rank} for rank in range(n)], 0
    while min(map(len, has)) < n:
        has, steps = [has[rank] | has[rank - 1] for rank in range(n)], steps + 1
    return steps

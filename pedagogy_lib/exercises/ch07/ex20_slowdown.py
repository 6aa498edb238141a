"""A step whose ring all-reduces leave the node: exercise 7.20. Arithmetic alone, without ranks."""

import math
from dataclasses import dataclass

from ...basics.closeness import close
from ...course.checking import Exercise, Wrong
from ..kit.outcomes import number_in, outcome_of


@dataclass(frozen=True)
class Step:
    """A step's work, in the order of the exercise's arguments.

    inside, between  (bytes per second, latency in seconds) of the slowest link in the ring
    """

    compute_seconds: float
    sums: int
    sum_bytes: int
    n: int
    inside: tuple[float, float]
    between: tuple[float, float]

    def arguments(self):
        return (self.compute_seconds, self.sums, self.sum_bytes, self.n, self.inside, self.between)


# {case: step}
STEPS = {
    "8 GPUs, NVLink or InfiniBand": Step(0.02, 48, 64_000_000, 8, (4.5e11, 5e-6), (5e10, 2e-5)),
    "2 ranks, a slow network": Step(0.5, 6, 8_000_000, 2, (2e9, 1e-4), (1.25e8, 1e-3)),
    "small sums, where latency counts": Step(1e-3, 100, 4_096, 16, (1e10, 3e-6), (1e10, 5e-5)),
    "no compute at all": Step(0.0, 3, 40_000_000, 4, (1e10, 0.0), (1e9, 0.0)),
    "nothing to sum": Step(0.3, 0, 1_000_000, 4, (1e10, 1e-5), (1e9, 1e-4)),
}
ERRORS = {
    "unsupported operand": "inside and between are pairs: bytes_per_second, latency = inside",
    "can't multiply": "inside and between are pairs: bytes_per_second, latency = inside",
    "must be real number": "inside and between are pairs: bytes_per_second, latency = inside",
    "division by zero": "a latency may be 0, as the compute and the sums may: nothing is divided "
    "by them. A pair is (bytes per second, latency), in this order",
}


def examine_slowdown(answer):
    for case, step in STEPS.items():
        outcome = outcome_of(answer, *step.arguments())
        if outcome.error:
            why = next((why for words, why in ERRORS.items() if words in outcome.message), "")
            raise Wrong(case, str(outcome), why)
        got, right = number_in(case, outcome), ratio(step)
        if not close(got, right):
            raise Wrong(case, f"expected {right:.6g}, got {got:.6g}", why_ratio(step, got))
        slow, fast = (1e3 * seconds(step, link) for link in (step.between, step.inside))
        yield f"{case}: {slow:.4g} ms beside {fast:.4g} ms a step, {right:.4g} times"


def seconds(step, link, rounds=None, in_each=None, latencies=None, sums=None, compute=None):
    """How long a step takes; what is given replaces a part of it.

    rounds     messages that follow each other in one all-reduce
    in_each    bytes of a message
    latencies  in one all-reduce
    """
    rate, latency = link
    rounds = 2 * (step.n - 1) if rounds is None else rounds
    in_each = step.sum_bytes / step.n if in_each is None else in_each
    waiting = latency * (rounds if latencies is None else latencies)
    one = rounds * in_each / rate + waiting
    compute = step.compute_seconds if compute is None else compute
    return compute + one * (step.sums if sums is None else sums)


def ratio(step, **parts) -> float:
    slow, fast = (seconds(step, link, **parts) for link in (step.between, step.inside))
    return slow / fast if fast else math.nan


def why_ratio(step, got) -> str:
    guesses = guesses_at_ratio(step)
    return next((why for why, guess in guesses if close(got, guess)), "")


def guesses_at_ratio(step) -> list[tuple[str, float]]:
    """[(sentence, what this misconception gives), …]."""
    n, right = step.n, ratio(step)
    slow = seconds(step, step.between)
    return [
        (NO_COMPUTE, ratio(step, compute=0.0)),
        (NO_COMPUTE, step.inside[0] / step.between[0]),
        (INVERTED, 1 / right),
        (MORE, right - 1),
        (SECONDS, slow),
        (SECONDS, slow - seconds(step, step.inside)),
        (ONE_ROUND, ratio(step, rounds=n - 1)),
        (TWO_ROUNDS, ratio(step, rounds=2)),
        (N_ROUNDS, ratio(step, rounds=2 * n)),
        (ONE_MESSAGE, ratio(step, rounds=1)),
        (ALL_BYTES, ratio(step, in_each=step.sum_bytes)),
        (ALL_BYTES, ratio(step, in_each=step.sum_bytes, rounds=1)),
        (ALL_BYTES, ratio(step, in_each=step.sum_bytes, rounds=2)),
        (ONE_LATENCY, ratio(step, latencies=1)),
        (NO_LATENCY, ratio(step, latencies=0)),
        (ONE_SUM, ratio(step, sums=1)),
        (BITS, ratio(step, in_each=8 * step.sum_bytes / n)),
        (COMPUTE_EACH, ratio(step, compute=step.compute_seconds * max(1, step.sums))),
        (COMPUTE_SHARED, ratio(step, compute=step.compute_seconds / n)),
        (FEW_LATENCIES, ratio(step, rounds=2 * (n - 1) / n, in_each=step.sum_bytes)),
        (BANDWIDTHS_ALONE, ratio_by_bandwidths(step)),
        (SWAPPED, ratio_with_swapped_links(step)),
    ]


def ratio_by_bandwidths(step) -> float:
    """As if the sums' share of a step grew as the bandwidth shrinks."""
    fast = seconds(step, step.inside)
    share = 1 - step.compute_seconds / fast if fast else math.nan
    return 1 - share + share * step.inside[0] / step.between[0]


def ratio_with_swapped_links(step) -> float:
    slow, fast = step.between[::-1], step.inside[::-1]
    if not slow[0] or not fast[0]:
        return math.nan  # a latency of 0 is no bandwidth
    return seconds(step, slow) / seconds(step, fast)


NO_COMPUTE = (
    "this is how much longer the messages take. A step computes, too, and that part does not get "
    "longer: the less a step communicates, the less it is slowed down"
)
INVERTED = "upside down: how many times longer is the slow step divided by the fast one"
MORE = "this is by how much it is longer; asked is how many times as long it takes"
SECONDS = "these are seconds; asked is how many times as long a step takes: a ratio of two steps"
ONE_ROUND = (
    "a ring all-reduce goes round twice: n - 1 messages until each chunk is summed, and n - 1 more "
    "until everybody has it"
)
TWO_ROUNDS = (
    "going round once takes n - 1 messages, one after another, and a ring all-reduce goes round "
    "twice: 2 (n - 1)"
)
N_ROUNDS = "a chunk reaches everybody after n - 1 messages, not n: it starts somewhere"
ONE_MESSAGE = "an all-reduce is not one message, but 2 (n - 1), one after another"
ALL_BYTES = "a message in the ring is one of n chunks: sum_bytes / n, 2 (n - 1) times"
ONE_LATENCY = (
    "the latency counts for each message, not once for an all-reduce: 2 (n - 1) of them follow "
    "each other"
)
NO_LATENCY = "the latency is missing: each message takes it, however short it is"
ONE_SUM = "there are `sums` all-reduces in a step, one after another"
BITS = "bytes per second are given, not bits"
COMPUTE_EACH = "compute_seconds is that of the whole step, not between two all-reduces"
COMPUTE_SHARED = (
    "compute_seconds is divided by n: it is what a step computes on each of the n ranks already"
)
FEW_LATENCIES = (
    "2 (n - 1) / n is how much of the tensor a rank sends, not how many messages: there are "
    "2 (n - 1), and each of them takes a whole latency"
)
BANDWIDTHS_ALONE = (
    "this takes the sums' part of a step times the ratio of the bandwidths. The latencies have "
    "another ratio: a message takes latency + bytes / bytes_per_second"
)
SWAPPED = "bandwidth and latency are swapped: a link is (bytes per second, latency), in this order"


EXERCISE = Exercise(
    "7.20", "slowdown", examine_slowdown,
    (
        "Write down first how long one step takes with one kind of link; then divide.",
        "An all-reduce is 2 (n - 1) messages, one after another. How long does one take, with "
        "its latency, and how many bytes has it?",
        "A step: compute_seconds + sums * (messages of one) * (latency + bytes of a message / "
        "bytes_per_second). That of `between` is divided by that of `inside`.",
    ),
)  # fmt: skip

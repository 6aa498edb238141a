"""The steps that are tried, and the time that a step takes."""

from coursekit.kit.message_costs import steps_round_ring
from coursekit.kit.tables import tabulate

# {case: (compute_seconds, sums, sum_bytes, n, inside, between)}. A link is the slowest in the ring,
# (bytes per second, latency in seconds). MORE in check.py adds a step to some of the cases.
STEPS = {
    "8 GPUs, NVLink or InfiniBand": (0.02, 48, 64_000_000, 8, (4.5e11, 5e-6), (5e10, 2e-5)),
    "2 ranks, a slow network": (0.5, 6, 8_000_000, 2, (2e9, 1e-4), (1.25e8, 1e-3)),
    "small sums, where latency counts": (1e-3, 100, 4_096, 16, (1e10, 3e-6), (1e10, 5e-5)),
    "no compute at all": (0.0, 3, 40_000_000, 4, (1e10, 0.0), (1e9, 0.0)),
    "nothing to sum": (0.3, 0, 1_000_000, 4, (1e10, 1e-5), (1e9, 1e-4)),
}


@tabulate(lambda: [(*step[:4], link) for step in STEPS.values() for link in step[4:]])
def seconds(compute, sums, nbytes, n, link, rounds=None, in_each=None, latencies=None) -> float:
    """Return how long a step takes; each optional argument replaces a part of the formula.

    rounds     messages that follow each other in one all-reduce
    in_each    bytes of a message
    latencies  number of latencies in one all-reduce
    """
    rate, latency = link
    rounds = 2 * steps_round_ring(n) if rounds is None else rounds
    in_each = nbytes / n if in_each is None else in_each
    waiting = latency * (rounds if latencies is None else latencies)
    return compute + (rounds * in_each / rate + waiting) * sums

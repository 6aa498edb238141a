"""The right results, and the results of known mistakes."""

import math

from coursekit.kit.message_costs import steps_round_ring

from .cases import seconds


def ratio(compute, sums, nbytes, n, inside, between, **parts) -> float:
    slow, fast = (seconds(compute, sums, nbytes, n, link, **parts) for link in (between, inside))
    return slow / fast if fast else math.nan


def scale_by_bandwidth(compute, sums, nbytes, n, inside, between) -> float:
    """Return the ratio if the sums' share of a step grew as the bandwidth shrinks."""
    fast = seconds(compute, sums, nbytes, n, inside)
    share = 1 - compute / fast if fast else math.nan
    return 1 - share + share * inside[0] / between[0]


def count_one_latency(compute, sums, nbytes, n, *links) -> float:
    fast, slow = (
        seconds(compute, sums, nbytes, n, link, latencies=0) + 2 * steps_round_ring(n) * link[1]
        for link in links
    )
    return slow / fast if fast else math.nan


def overlap_sums(compute, *work) -> float:
    """Return the ratio if the sums overlapped with the computation."""
    *sizes, inside, between = work
    slow, fast = (max(compute, seconds(0.0, *sizes, link)) for link in (between, inside))
    return slow / fast if fast else math.nan


def swap_links(compute, sums, nbytes, n, inside, between) -> float:
    if not inside[1] or not between[1]:
        return math.nan  # a latency of 0 is no bandwidth
    return ratio(compute, sums, nbytes, n, inside[::-1], between[::-1])


def parts(**make):
    """Return a function that gives the ratio with other parts, each made from (nbytes, n)."""

    def wrong(compute, sums, nbytes, n, inside, between):
        given = {name: function(nbytes, n) for name, function in make.items()}
        return ratio(compute, sums, nbytes, n, inside, between, **given)

    return wrong


NO_COMPUTE = (
    "this is how much longer the messages take. A step computes, too, and that part does not get "
    "longer: the less a step communicates, the less it is slowed down"
)

SECONDS = "these are seconds; asked is how many times as long a step takes: a ratio of two steps"

ALL_BYTES = "a message in the ring is one of n chunks: sum_bytes / n, 2 (n - 1) times"

MISTAKES = [
    (NO_COMPUTE, lambda compute, *work: ratio(0.0, *work)),
    (NO_COMPUTE, lambda compute, sums, nbytes, n, inside, between: inside[0] / between[0]),
    ("upside down: how many times longer is the slow step divided by the fast one",
     lambda *step: 1 / ratio(*step)),
    ("this is by how much it is longer; asked is how many times as long it takes",
     lambda *step: ratio(*step) - 1),
    (SECONDS, lambda *step: seconds(*step[:4], step[5])),
    (SECONDS, lambda *step: seconds(*step[:4], step[5]) - seconds(*step[:5])),
    ("a ring all-reduce goes round twice: n - 1 messages until each chunk is summed, and n - 1 "
     "more until everybody has it", parts(rounds=lambda nbytes, n: n - 1)),
    ("going round once takes n - 1 messages, one after another, and a ring all-reduce goes "
     "round twice: 2 (n - 1)", parts(rounds=lambda nbytes, n: 2)),
    ("a chunk reaches everybody after n - 1 messages, not n: it starts somewhere",
     parts(rounds=lambda nbytes, n: 2 * n)),
    ("an all-reduce is not one message, but 2 (n - 1), one after another",
     parts(rounds=lambda nbytes, n: 1)),
    (ALL_BYTES, parts(in_each=lambda nbytes, n: nbytes)),
    (ALL_BYTES, parts(in_each=lambda nbytes, n: nbytes, rounds=lambda nbytes, n: 1)),
    (ALL_BYTES, parts(in_each=lambda nbytes, n: nbytes, rounds=lambda nbytes, n: 2)),
    ("a message takes sum_bytes / n bytes: // rounds that down",
     parts(in_each=lambda nbytes, n: nbytes // n)),
    ("the latency counts for each message, not once for an all-reduce: 2 (n - 1) of them "
     "follow each other", parts(latencies=lambda nbytes, n: 1)),
    ("the latency is missing: each message takes it, however short it is",
     parts(latencies=lambda nbytes, n: 0)),
    ("the latencies of one all-reduce alone are counted: each of the `sums` has 2 (n - 1) "
     "messages, and each message takes a whole latency. Where does the bracket end?",
     count_one_latency),
    ("there are `sums` all-reduces in a step, one after another",
     lambda compute, sums, *rest: ratio(compute, 1, *rest)),
    ("bytes per second are given, not bits", parts(in_each=lambda nbytes, n: 8 * nbytes / n)),
    ("compute_seconds is that of the whole step, not between two all-reduces",
     lambda compute, sums, *rest: ratio(compute * max(1, sums), sums, *rest)),
    ("compute_seconds is divided by n: it is what a step computes on each of the n ranks "
     "already", lambda compute, sums, nbytes, n, *links:
        ratio(compute / n, sums, nbytes, n, *links)),
    ("2 (n - 1) / n is how much of the tensor a rank sends, not how many messages: there are "
     "2 (n - 1), and each of them takes a whole latency",
     parts(rounds=lambda nbytes, n: 2 * (n - 1) / n, in_each=lambda nbytes, n: nbytes)),
    ("this takes the sums' part of a step times the ratio of the bandwidths. The latencies "
     "have another ratio: a message takes latency + bytes / bytes_per_second", scale_by_bandwidth),
    ("this takes the longer of both, as if the sums hid behind the computing: here a step "
     "computes, and then waits for its sums", overlap_sums),
    ("bandwidth and latency are swapped: a link is (bytes per second, latency), in this order",
     swap_links),
]  # fmt: skip

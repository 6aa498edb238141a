"""An all-reduce by recursive halving and doubling."""

from math import log2

import torch

from coursekit.answers.remote_answer import try_on_ranks
from coursekit.kit import Wrong
from coursekit.kit.collective_exercise import LARGE, Case, Collective
from coursekit.kit.diagnoses import same
from coursekit.kit.message_costs import is_near, messages, need_cost
from pedagogy_lib.basics.units import format_bytes

from ..all_reduce_ring.check import only_some_have_the_sum
from ..all_reduce_ring.truth import truth
from ..shared.costs import shape_of_traffic
from ..shared.misconceptions import (
    changes_nothing,
    diagnose_mean,
    group_ignored,
    hang_between_neighbours,
    sum_of_the_wrong_ranks,
)
from ..shared.tasks import AllReduceTask
from .cases import refuses

CASES = [
    Case(2),
    Case(4, length=8),
    Case(1),
    Case(4, length=7),
    Case(8, length=11),
    Case(4, length=2),
    Case(4, shape=()),
    Case(2, shape=(5, 3), dtype=torch.int64),
    Case(4, length=9, dtype=torch.bfloat16),
    Case(5, length=6, members=(0, 1, 3, 4)),
]
ONCE = "with 2 ranks it is right, with {n} it is not: "


def cut(length, rounds) -> list[tuple[int, int]]:
    """Return the (start, end) of each part if a tensor and its parts are halved in each round."""
    parts = [(0, length)]
    for _ in range(rounds):
        parts = [part for a, b in parts for part in ((a, (a + b) // 2), ((a + b) // 2, b))]
    return parts


def check_part_sums(trial, place) -> list[bool]:
    """Return, for each of the n parts that halving makes, whether this rank has its sum."""
    got, wanted = trial.after[place][0].view(-1), trial.truth(place)[0].view(-1)
    parts = cut(len(got), int(log2(trial.case.n)))
    return [same(got[a:b], wanted[a:b]) for a, b in parts if a < b]


def only_the_first_half(trial) -> str:
    """Diagnose an answer that ends after the reduce-scatter."""
    n = trial.case.n
    if n == 1 or trial.before[0][0].numel() < n:
        return ""
    if any(sum(check_part_sums(trial, place)) != 1 for place in range(n)):
        return ""
    return (
        "each rank has one part of the sum, and the rest is unfinished. This is the first half, a "
        "reduce-scatter: now the finished parts have to come back to everybody."
    )


def one_round_is_missing(trial) -> str:
    """Diagnose a missing round: each rank has the sum of several parts, but not of all."""
    n = trial.case.n
    if n < 4 or trial.before[0][0].numel() < n:
        return ""
    for place in range(n):
        if not 1 < sum(check_part_sums(trial, place)) < n:
            return ""
    return (
        ONCE.format(n=n) + "everybody has some finished parts, and not all. Each round of the "
        "first half has one in the second, which gives back what was given away in it: last in, "
        "first out."
    )


def diagnose_late_adds(trial) -> str:
    """Diagnose an answer that adds the received numbers in the second half, too."""
    n = trial.case.n
    for place in range(n):
        got, wanted = trial.after[place][0].view(-1), trial.truth(place)[0].view(-1)
        too_much = got.double() > wanted.double()
        if n == 1 or not too_much.any() or (got.double() < wanted.double()).any():
            return ""
    return (
        "some numbers are counted too often. In the first half what comes in is added. In the "
        "second half it is finished, and takes the place of what is there."
    )


def halves_mixed_up(trial) -> str:
    """Diagnose, with two ranks, a half to which the partner's other half was added."""
    if trial.case.n != 2 or trial.before[0][0].numel() < 4:
        return ""
    for place in (0, 1):
        got, own = (of[place][0].view(-1).tensor_split(2) for of in (trial.after, trial.before))
        other = trial.before[1 - place][0].view(-1).tensor_split(2)
        mixed = (own[0].shape == other[1].shape and (
            same(got[0], own[0] + other[1]) or same(got[1], own[1] + other[0])))  # fmt: skip
        if mixed:
            return (
                "one half is added to the other half. Of two partners, one keeps the lower half "
                "and gets the other's lower half; the other one keeps the upper half, and gets an "
                "upper half."
            )
    return ""


def diagnose_early_overwrite(trial) -> str:
    """Diagnose, with two ranks, halves that hold the partner's numbers instead of a sum."""
    if trial.case.n != 2 or trial.before[0][0].numel() < 4:
        return ""
    for place in (0, 1):
        got = trial.after[place][0].view(-1).tensor_split(2)
        other = trial.before[1 - place][0].view(-1).tensor_split(2)
        if any(map(same, got, other)):
            return (
                "some numbers are the partner's, not a sum. In the first half, what comes in needs "
                "a tensor of its own, and is added to what stays. In the second half a rank gives "
                "away the part that it has finished."
            )
    return ""


def only_pairs_are_right(trial) -> str:
    """Diagnose, as a last resort, any error with 4 or more ranks, because 2 are tried first."""
    n = trial.case.n
    if n < 4 or trial.case.is_group:
        return ""
    return ONCE.format(n=n) + (
        "look at the second round. Who is the partner, which part is still open, and which half of "
        "it does each of the two keep?"
    )


def need_few_of_both(trial):
    """Require of each rank as many bytes as in a ring, in 2 log2(n) messages."""
    n, nbytes = trial.case.n, trial.before[0][0].nbytes
    least, rounds = 2 * (n - 1) / n * nbytes, 2 * int(log2(n))
    counts = [len(trial.sends(place)) for place in range(n)]
    sent = [sum(call.sent_bytes for call in trial.sends(place)) for place in range(n)]
    each = " and ".join(sorted(set(map(format_bytes, sent))))
    need_cost(
        trial,
        all(is_near(count, least) for count in sent),
        f"ranks sent {each}; halving and doubling sends {format_bytes(least)} everywhere",
        other_numbers(trial, sent, least) or why_more_bytes(trial, counts, nbytes),
    )
    need_cost(
        trial,
        set(counts) == {rounds},
        f"rank 0 sent {messages(counts[0])}; {rounds} would do",
        why_more_messages(trial, counts, n),
    )
    return f"cost, {trial.case}: every rank sends {format_bytes(least)} in {messages(rounds)}"


def other_numbers(trial, sent, least) -> str:
    """Diagnose wrong bytes in the small case, which is tried last: the algorithm is right."""
    if trial.case.length == LARGE:
        return ""
    if all(is_near(count, 2 * least) for count in sent):
        return (
            "the result is right, but each number takes twice as many bytes on its way as in x: "
            "send it in the dtype of x."
        )
    return (
        "for long tensors the cost is right, but here more numbers travel than x has. Halves may "
        "differ by one element: x needs no filling up."
    )


def why_more_bytes(trial, counts, nbytes) -> str:
    n, sent = trial.case.n, trial.sent_bytes
    if all(is_near(one, log2(n) * nbytes) for one in sent) and set(counts) == {int(log2(n))}:
        return (
            "the result is right, but each message is the whole tensor. This is recursive "
            "doubling: few messages, and many bytes. Here a rank is to give away half of what is "
            "open, and to add up the other half alone."
        )
    if all(is_near(one, 2 * log2(n) * nbytes / 2) for one in sent):
        return (
            "the result is right, but every message is half of the tensor. What stays is halved "
            "again in the next round."
        )
    return shape_of_traffic(trial).replace("In a ring all", "Here all")


def why_more_messages(trial, counts, n) -> str:
    if set(counts) == {2 * (n - 1)}:
        peers = {call.peer for call in trial.sends(0)}
        if len(peers) == 1:
            return (
                "the result and the bytes are right, but this is the ring: a chunk goes to the "
                "next rank in each step. With a partner that is far away, half of the tensor can "
                "go at once."
            )
        return (
            "the result and the bytes are right, but in messages of one chunk each. Chunks that "
            "lie side by side, and go to the same rank, can go as one message."
        )
    return (
        "the bytes are right, but in more messages than there are rounds: each message costs a "
        "latency."
    )


NO_PARTNER = (
    "with 3 ranks some rank has no partner. The line `need_power_of_two(n)`, which is in the file, "
    "says so before anything is sent: keep it."
)


class PairsAlone(Collective):
    """A collective that has to refuse numbers of ranks that are not a power of two."""

    def examine(self, answer):
        yield from super().examine(answer)
        case = "3 ranks"
        run = try_on_ranks(case, refuses, answer, world_size=3, explain=lambda error: NO_PARTNER)
        if not all(run.values):
            raise Wrong(case, "it goes on; expected ValueError", NO_PARTNER)
        yield f"{case}: refused"


EXERCISE = PairsAlone(
    "all_reduce_halving_doubling",
    task=AllReduceTask(),
    truth=truth,
    cases=CASES,
    diagnoses=[
        changes_nothing,
        group_ignored,
        diagnose_mean,
        diagnose_late_adds,
        halves_mixed_up,
        diagnose_early_overwrite,
        only_the_first_half,
        one_round_is_missing,
        only_some_have_the_sum,
        sum_of_the_wrong_ranks,
        only_pairs_are_right,
    ],
    large=[*(Case(n, length=LARGE) for n in (8, 4, 2)), Case(4, length=1200, dtype=torch.float32)],
    need_cost=need_few_of_both,
    explain_hang=hang_between_neighbours,
    hints=(
        "Write it for two ranks first: who gives which half, and who keeps which?",
        "With four ranks, do the same with the half that is left, and the other partner. Partners "
        "always have the same part open: they agree about its middle.",
        "Keep a list of the rounds: partner, the part that you kept, the part that you gave away. "
        "The second half goes through it from its end.",
    ),
    lab="halving_doubling",
)

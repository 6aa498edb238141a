"""An all-reduce: a reduce-scatter and an all-gather."""

import torch

from coursekit.kit.collective_exercise import LARGE, Case, Collective
from coursekit.kit.diagnoses import ranks_text, same

from ..shared.costs import need_ring
from ..shared.misconceptions import (
    changes_nothing,
    diagnose_mean,
    group_ignored,
    hang_between_neighbours,
    sum_of_the_wrong_ranks,
)
from ..shared.tasks import AllReduceTask
from .truth import truth

CASES = [
    Case(3),
    Case(2),
    Case(4, length=8),
    Case(1),
    Case(4, length=7),
    Case(3, length=2),
    Case(4, shape=()),
    Case(3, shape=(5, 4), dtype=torch.int64),
    Case(2, length=9, dtype=torch.bfloat16),
    Case(4, length=5, members=(1, 2, 3)),
]


def only_some_have_the_sum(trial) -> str:
    have = [place for place in range(trial.case.n) if trial.is_right(place)]
    if not have or len(have) == trial.case.n:
        return ""
    return (
        f"{ranks_text(have)} alone got the sum, as in a reduce. In an all-reduce it also has to "
        "come back to everybody."
    )


def only_own_chunk_is_summed(trial) -> str:
    """Diagnose an answer that ends after the reduce-scatter."""
    n = trial.case.n
    if n == 1:
        return ""
    for place in range(n):
        got = trial.after[place][0].view(-1).tensor_split(n)
        wanted = trial.truth(place)[0].view(-1).tensor_split(n)
        right = [k for k in range(n) if same(got[k], wanted[k])]
        if len(right) != 1:
            return ""
    return (
        "each rank has one chunk of the sum, and the rest is unfinished: this is the "
        "reduce-scatter. The all-gather, which brings the finished chunks to everybody, is missing."
    )


def diagnose_early_gather(trial) -> str:
    """Diagnose an all-gather that comes first, or without a reduce-scatter."""
    n = trial.case.n
    for place in range(n):
        got = trial.after[place][0].view(-1).tensor_split(n)
        own = [t[0].view(-1).tensor_split(n)[k] for k, t in enumerate(trial.before)]
        if n == 1 or not all(map(same, got, own)):
            return ""
    return (
        "x now holds chunk k as rank k had it: an all-gather without the sums. The reduce-scatter "
        "comes first."
    )


def last_elements_left_out(trial) -> str:
    """Diagnose a remainder that is not summed, at a length that n does not divide."""
    n, length = trial.case.n, trial.before[0][0].numel()
    if n == 1 or length % n == 0:
        return ""
    for place in range(n):
        got, wanted = trial.after[place][0].view(-1), trial.truth(place)[0].view(-1)
        whole = length // n * n
        if not same(got[:whole], wanted[:whole]):
            return ""
    return (
        f"the last {length % n} of {length} elements are not summed: n chunks of length // n leave "
        "a rest. x.view(-1).tensor_split(n) makes chunks that differ by one element at most."
    )


def diagnose_uneven_length(trial) -> str:
    """Diagnose an unchanged x whose length n does not divide; other lengths are tried first."""
    said, length = changes_nothing(trial), trial.before[0][0].numel()
    if not said or trial.case.members or length % trial.case.n == 0:
        return ""
    return f"where n divides the length it is right. Here {said}"


def need_a_ring(trial):
    n = trial.case.n
    return need_ring(trial, 2 * (n - 1), 2 * (n - 1) / n * trial.before[0][0].nbytes)


EXERCISE = Collective(
    "all_reduce_ring",
    task=AllReduceTask(),
    truth=truth,
    cases=CASES,
    diagnoses=[
        diagnose_uneven_length,
        changes_nothing,
        group_ignored,
        diagnose_mean,
        last_elements_left_out,
        diagnose_early_gather,
        only_own_chunk_is_summed,
        only_some_have_the_sum,
        sum_of_the_wrong_ranks,
    ],
    large=[
        Case(3, length=9),  # small, so bytes are counted from the calls
        *(Case(n, length=LARGE) for n in (4, 2)),
        Case(3, length=LARGE, dtype=torch.float32),
    ],
    need_cost=need_a_ring,
    explain_hang=hang_between_neighbours,
    hints=(
        "You have both halves already.",
        "list(x.view(-1).tensor_split(n)) has n chunks that share x's memory: what is written "
        "into them is written into x. tensor_split alone gives a tuple; the two halves take "
        "a list.",
    ),
    lab="collectives",
)

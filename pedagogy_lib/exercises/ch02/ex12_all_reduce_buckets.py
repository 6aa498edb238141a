"""All-reduces of several tensors at once."""

import torch

from ..kit.trials import Case, Collective, Task, need_cost, numbers, same, total
from .misconceptions import (
    changes_nothing,
    divided,
    group_ignored,
    hang_between_neighbours,
    put_into_the_list,
    sum_of_the_wrong_ranks,
)


class Buckets(Task):
    """Lengths of 3, 50, 1, … elements; buckets of 400 bytes."""

    bucket_bytes = 400
    LENGTHS = (3, 50, 1, 20, 20, 20, 90, 4, 7)

    def inputs(self, place, case):
        lengths = self.LENGTHS[: case.length]
        tensors = [numbers(place, (n,), case.dtype, salt) for salt, n in enumerate(lengths)]
        return [x.view(2, -1) if x.numel() == 20 else x for x in tensors]

    def call(self, answer, tensors, case, group):
        given = list(tensors)
        answer(given, self.bucket_bytes, group)
        return given

    def truth(self, before, place, case):
        return [total(before, k) for k in range(len(before[0]))]

    def name_of(self, index, case):
        return f"tensors[{index}]"


CASES = [
    Case(1, length=4),
    Case(2, length=9),
    Case(3, length=9, dtype=torch.float32),
    Case(4, length=3, dtype=torch.int64),
    Case(2, length=0),
    Case(3, length=5, members=(0, 2)),
]


# 24 | 400 | 8 160 160 | 160 | 720 | 32 56 bytes: what fits into 400, in order.
NUMBER_OF_BUCKETS = 6


def copied_back_into_new_tensors(trial) -> str:
    unchanged = [
        k
        for k in range(len(trial.before[0]))
        if all(same(trial.before[p][k], trial.after[p][k]) for p in range(trial.case.n))
    ]
    if not unchanged or trial.case.n == 1:
        return ""
    if len(unchanged) == len(trial.before[0]):
        return (
            "the tensors are what they were: torch.cat makes a copy, so the sum of the bucket has "
            "to be copied back into each of its tensors."
        )
    last = unchanged[-1] == len(trial.before[0]) - 1
    hint = " The last bucket is never full: it still has to be sent after the loop." if last else ""
    return f"tensors {unchanged} have not been reduced.{hint}"


def mixed_up_in_the_bucket(trial) -> str:
    got = torch.cat([x.reshape(-1) for x in trial.after[0]]).sort().values
    wanted = torch.cat([x.reshape(-1) for x in trial.truth(0)]).sort().values
    if not same(got, wanted):
        return ""
    return (
        "the sums are right, but come back into the wrong places: cut the bucket in the order in "
        "which it was filled, tensor by tensor."
    )


def need_full_buckets(trial):
    count, best = len(trial.sends(0)) / 2, NUMBER_OF_BUCKETS
    tensors, limit = len(trial.before[0]), Buckets.bucket_bytes
    if count == tensors:
        why = "the result is right, but every tensor still has an all-reduce of its own."
    elif count == 1:
        why = f"everything is in one bucket; after {limit} bytes a new one has to begin."
    elif count < best:
        why = (
            f"some bucket holds more than {limit} bytes: look whether the next tensor still fits "
            "before it goes in, not after."
        )
    else:
        why = (
            "some tensor began a bucket although it would have fitted into the one before: count "
            "nbytes, and only of what is in that bucket."
        )
    need_cost(trial, count == best, f"{count:g} all-reduces, expected {best}", why)
    return f"cost, {trial.case}: {best} all-reduces for {tensors} tensors"


EXERCISE = Collective(
    "2.12",
    "all_reduce_buckets",
    task=Buckets(),
    cases=CASES,
    diagnoses=[
        put_into_the_list,
        group_ignored,
        divided,
        copied_back_into_new_tensors,
        changes_nothing,
        mixed_up_in_the_bucket,
        sum_of_the_wrong_ranks,
    ],
    large=[Case(2, length=9)],
    need_cost=need_full_buckets,
    explain_hang=hang_between_neighbours,
    hints=(
        "First sort the tensors into a list of lists; then deal with one list at a time.",
        "torch.cat of the flattened tensors makes one long tensor. all_reduce_ring it.",
        "long.split([…lengths…]) cuts it again; copy each piece back into its tensor.",
    ),
    lab="collectives",
)

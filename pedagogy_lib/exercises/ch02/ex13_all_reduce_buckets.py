"""All-reduces of several tensors at once."""

import torch

from ..kit.costs import need_cost
from ..kit.trials import Case, Collective, Task, fine_numbers, same, total
from .misconceptions import (
    changes_nothing,
    divided,
    group_ignored,
    hang_between_neighbours,
    put_into_the_list,
    sum_of_the_wrong_ranks,
)


class Buckets(Task):
    """Of 720, 24, 400, 8, 160, … bytes; buckets of 400."""

    bucket_bytes = 400
    LENGTHS = (90, 3, 50, 1, 20, 20, 20, 30, 4, 200, 7)

    def inputs(self, place, case):
        lengths = self.LENGTHS[: case.length]
        tensors = [fine_numbers(place, (n,), case.dtype, salt) for salt, n in enumerate(lengths)]
        shapes = {1: (), 20: (2, 10)}
        return [x.view(shapes.get(x.numel(), -1)) for x in tensors]

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
    Case(2, length=11),
    Case(3, length=11, dtype=torch.float32),
    Case(4, length=3, dtype=torch.int64),
    Case(2, length=0),
    Case(3, length=5, members=(0, 2)),
]


def buckets_of(sizes, limit) -> list[list[int]]:
    """Who is with whom if each takes the last bucket, or begins one: the tensors' numbers."""
    buckets = []
    for number, size in enumerate(sizes):
        if not buckets or sum(sizes[k] for k in buckets[-1]) + size > limit:
            buckets.append([])
        buckets[-1].append(number)
    return buckets


def first_fit(sizes, limit) -> list[list[int]]:
    buckets = []
    for number, size in enumerate(sizes):
        fitting = (b for b in buckets if sum(sizes[k] for k in b) + size <= limit)
        bucket = next(fitting, None)
        if bucket is None:
            buckets.append(bucket := [])
        bucket.append(number)
    return buckets


def pieces(size, limit) -> list[int]:
    return [min(limit, size - start) for start in range(0, size, limit)]


def ways(sizes, limit) -> dict[str, list[int]]:
    """{what an answer has misunderstood: the sizes of its buckets}."""

    def of(buckets, sizes=sizes):
        return [sum(sizes[k] for k in bucket) for bucket in buckets]

    by_size = sorted(sizes)
    some_more = f"in pieces of {limit} bytes"
    return {
        f"a tensor that is larger than a bucket goes {some_more} here: it is to go as a whole, in "
        "a bucket of its own.": [
            piece for size in of(buckets_of(sizes, limit)) for piece in pieces(size, limit)],
        f"everything goes {some_more} here: a tensor is to go as a whole, in one bucket.":
            pieces(sum(sizes), limit),
        "the result is right, but every tensor still has an all-reduce of its own.": list(sizes),
        f"everything is in one bucket; after {limit} bytes a new one has to begin.": [sum(sizes)],
        "a bucket that is exactly full is allowed: as long as they fit, tensors go in.":
            of(buckets_of(sizes, limit - 1)),
        f"these are buckets of {limit} elements; asked are bytes: nbytes.":
            of(buckets_of([size // 8 for size in sizes], limit)),
        "the tensors are sorted by their size; a bucket takes them in the order in which they are "
        "given.": of(buckets_of(by_size, limit), by_size),
        "the largest come first; a bucket takes tensors in the order in which they are given.":
            of(buckets_of(by_size[::-1], limit), by_size[::-1]),
        "a tensor goes into an earlier bucket that has room; only the last one is still open, so "
        "that a bucket can go as soon as it is full.": of(first_fit(sizes, limit)),
    }  # fmt: skip


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
    sizes, limit = [x.nbytes for x in trial.before[0]], Buckets.bucket_bytes
    wanted = [sum(sizes[k] for k in bucket) for bucket in buckets_of(sizes, limit)]
    sends = trial.sends(0)  # with 2 ranks two for each bucket: together they are as long as it is
    got = [a.sent_bytes + b.sent_bytes for a, b in zip(sends[::2], sends[1::2])]
    why = next((why for why, way in ways(sizes, limit).items() if sorted(got) == sorted(way)), "")
    if not why and max(got, default=0) > max(limit, *sizes):
        why = (
            f"some bucket holds more than {limit} bytes: look whether the next tensor still fits "
            "before it goes in, not after."
        )
    elif not why and len(got) > len(wanted):
        why = (
            "some tensor began a bucket although it would have fitted into the one before: count "
            "nbytes, and only of what is in that bucket."
        )
    what = f"all-reduces of {told(got)} bytes, expected {told(wanted)}"
    need_cost(trial, sorted(got) == sorted(wanted), what, why)
    return f"cost, {trial.case}: {len(wanted)} all-reduces for {len(sizes)} tensors"


def told(sizes) -> str:
    return ", ".join(map(str, sizes))


EXERCISE = Collective(
    "2.13",
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
    large=[Case(2, length=11)],
    need_cost=need_full_buckets,
    explain_hang=hang_between_neighbours,
    hints=(
        "First sort the tensors into a list of lists; then deal with one list at a time.",
        "torch.cat of the flattened tensors makes one long tensor. all_reduce_ring it.",
        "long.split([…lengths…]) cuts it again; copy each piece back into its tensor.",
    ),
    lab="collectives",
)

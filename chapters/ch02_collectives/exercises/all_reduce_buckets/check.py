"""All-reduces of several tensors at once."""

import torch

from coursekit.kit.collective_exercise import Case, Collective
from coursekit.kit.diagnoses import same
from coursekit.kit.message_costs import need_cost
from coursekit.kit.tables import tabulate

from ..shared.misconceptions import (
    changes_nothing,
    diagnose_mean,
    group_ignored,
    hang_between_neighbours,
    put_into_the_list,
    sum_of_the_wrong_ranks,
)
from .cases import Buckets, bucket_bytes
from .truth import truth

CASES = [
    Case(1, length=4),
    Case(2, length=11),
    Case(3, length=11, dtype=torch.float32),
    Case(4, length=3, dtype=torch.int64),
    Case(2, length=0),
    Case(3, length=5, members=(0, 2)),
]


def buckets_of(sizes, limit) -> list[list[int]]:
    """Return the tensors' indices in each bucket if only the last bucket may take a tensor."""
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


def fill_by_running_total(sizes, limit) -> list[list[int]]:
    """Fill buckets as if the bytes of all tensors so far counted, not those of the open bucket."""
    buckets, filled = [[]], 0
    for number, size in enumerate(sizes):
        if filled + size > limit:
            buckets.append([])
        buckets[-1].append(number)
        filled += size
    return [bucket for bucket in buckets if bucket]


def large_ones_alone(sizes, limit) -> list[list[int]]:
    buckets = []
    for number, size in enumerate(sizes):
        filled = sum(sizes[k] for k in buckets[-1]) if buckets else limit
        if filled + size > limit or size > limit // 2:
            buckets.append([])
        buckets[-1].append(number)
    return buckets


def calls() -> list[tuple]:
    """Return the arguments for which functions are tabulated: (sizes, limit, bytes per element)."""
    found = []
    for case in EXERCISE.large:
        sizes = [case.dtype.itemsize * length for length in Buckets.LENGTHS[: case.length]]
        found.append((sizes, bucket_bytes(case), case.dtype.itemsize))
    return found


@tabulate(calls)
def full_buckets(sizes, limit, itemsize) -> list[int]:
    return [sum(sizes[k] for k in bucket) for bucket in buckets_of(sizes, limit)]


@tabulate(calls)
def ways(sizes, limit, itemsize) -> dict[str, list[int]]:
    """Return {misconception: the sizes of its buckets}."""

    def sum_buckets(buckets, sizes=sizes):
        return [sum(sizes[k] for k in bucket) for bucket in buckets]

    by_size = sorted(sizes)
    some_more = f"in pieces of {limit} bytes"
    return {
        f"a tensor that is larger than a bucket goes {some_more} here: it is to go as a whole, in "
        "a bucket of its own.": [
            piece for size in sum_buckets(buckets_of(sizes, limit)) for piece in pieces(size, limit)
        ],
        f"everything goes {some_more} here: a tensor is to go as a whole, in one bucket.": pieces(
            sum(sizes), limit
        ),
        "the result is right, but every tensor still has an all-reduce of its own.": list(sizes),
        "only the first bucket fills up. Whatever counts its bytes has to begin at 0 again when a "
        "new bucket begins.": sum_buckets(fill_by_running_total(sizes, limit)),
        "the right buckets, but each number takes twice as many bytes on its way: keep the dtype "
        "of the tensors.": [2 * size for size in sum_buckets(buckets_of(sizes, limit))],
        f"these are buckets of 400 bytes; asked are {limit} here: bucket_bytes tells how "
        "many.": sum_buckets(buckets_of(sizes, 400)),
        "the bytes of an element depend on the dtype, and are not always 8: x.nbytes knows "
        "them.": sum_buckets(buckets_of([size // itemsize * 8 for size in sizes], limit)),
        "the last tensors come first; a bucket takes tensors in the order in which they are "
        "given.": sum_buckets(buckets_of(sizes[::-1], limit), sizes[::-1]),
        "a large tensor shares its bucket, too, as long as it fits in.": sum_buckets(
            large_ones_alone(sizes, limit)
        ),
        f"everything is in one bucket; after {limit} bytes a new one has to begin.": [sum(sizes)],
        "a bucket that is exactly full is allowed: as long as they fit, tensors go "
        "in.": sum_buckets(buckets_of(sizes, limit - 1)),
        f"these are buckets of {limit} elements; asked are bytes: nbytes.": sum_buckets(
            buckets_of([size // itemsize for size in sizes], limit)
        ),
        "the tensors are sorted by their size; a bucket takes them in the order in which they are "
        "given.": sum_buckets(buckets_of(by_size, limit), by_size),
        "the largest come first; a bucket takes tensors in the order in which they are "
        "given.": sum_buckets(buckets_of(by_size[::-1], limit), by_size[::-1]),
        "a tensor goes into an earlier bucket that has room; only the last one is still open, so "
        "that a bucket can go as soon as it is full.": sum_buckets(first_fit(sizes, limit)),
    }


def other_shapes(trial) -> str:
    pairs = zip(trial.after[0], trial.before[0])
    changed = [k for k, (got, had) in enumerate(pairs) if got.shape != had.shape]
    if not changed:
        return ""
    return (
        f"the shape of tensors {changed} has changed. The pieces of a bucket are flat: give each "
        "the shape of its tensor before you copy it there."
    )


def diagnose_missing_copy(trial) -> str:
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


def diagnose_bucket_order(trial) -> str:
    got = torch.cat([x.reshape(-1) for x in trial.after[0]]).sort().values
    wanted = torch.cat([x.reshape(-1) for x in trial.truth(0)]).sort().values
    if not same(got, wanted):
        return ""
    return (
        "the sums are right, but come back into the wrong places: cut the bucket in the order in "
        "which it was filled, tensor by tensor."
    )


def is_sent_for(buckets, sent, itemsize) -> bool:
    """Return whether a ring of 2 ranks, which may pad chunks, sends these bytes for the buckets."""
    pair = 2 * itemsize
    padded = [-(-size // pair) * pair for size in buckets]
    return sorted(sent) in (sorted(buckets), sorted(padded))


def need_full_buckets(trial):
    sizes, limit = [x.nbytes for x in trial.before[0]], bucket_bytes(trial.case)
    itemsize = trial.before[0][0].element_size()
    wanted = full_buckets(sizes, limit, itemsize)
    sends = trial.sends(0)  # with 2 ranks two per bucket, together as long as the bucket
    got = [a.sent_bytes + b.sent_bytes for a, b in zip(sends[::2], sends[1::2])]
    known = ways(sizes, limit, itemsize)
    why = next((why for why, way in known.items() if is_sent_for(way, got, itemsize)), "")
    singly = sorted(call.sent_bytes for call in sends)
    if singly in map(sorted, [wanted, *known.values()]):
        need_cost(trial, False, f"messages of {join_sizes(singly)} bytes", WHOLE_BUCKETS)
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
    what = f"all-reduces of {join_sizes(got)} bytes, expected {join_sizes(wanted)}"
    need_cost(trial, is_sent_for(wanted, got, itemsize), what, why)
    return f"cost, {trial.case}: {len(wanted)} all-reduces for {len(sizes)} tensors"


RING = (
    "Sum each bucket with all_reduce_ring of this file. On two ranks it sends half of the bucket "
    "twice."
)
WHOLE_BUCKETS = f"the result is right, but each bucket travels as a whole, as in a tree. {RING}"


def join_sizes(sizes) -> str:
    return ", ".join(map(str, sizes))


EXERCISE = Collective(
    "all_reduce_buckets",
    task=Buckets(),
    truth=truth,
    cases=CASES,
    diagnoses=[
        other_shapes,
        put_into_the_list,
        group_ignored,
        diagnose_mean,
        diagnose_missing_copy,
        changes_nothing,
        diagnose_bucket_order,
        sum_of_the_wrong_ranks,
    ],
    large=[Case(2, length=12, dtype=torch.float32), Case(2, length=11)],
    need_cost=need_full_buckets,
    explain_hang=hang_between_neighbours,
    hints=(
        "First sort the tensors into a list of lists; then deal with one list at a time.",
        "torch.cat of the flattened tensors makes one long tensor. all_reduce_ring it.",
        "long.split([…lengths…]) cuts it again; copy each piece back into its tensor.",
    ),
    lab="collectives",
    by_hand=f"it calls a collective of the backend's own. {RING}",
)

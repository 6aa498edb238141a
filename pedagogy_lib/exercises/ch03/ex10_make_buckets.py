"""Which gradients travel together: exercise 3.10. The truth is what torch does."""

import torch
from torch import nn

from ...basics.torch_private import buckets_of_ddp
from ...course.checking import Exercise, Wrong

# ---- 3.10: buckets ---------------------------------------------------------------------------

# {case: (elements of each parameter, the frozen ones, bucket_bytes)}; 8 bytes an element
BUCKETS = {
    "six parameters, buckets of 64 bytes": ([3, 2, 70, 5, 9, 4], (), 64),
    "a bucket that is exactly full": ([2, 4, 4, 3, 5], (), 64),
    "a parameter larger than a bucket": ([2, 3, 40, 1, 4, 4], (), 64),
    "some are frozen": ([3, 6, 2, 9, 7, 4], (1, 5), 64),
    "each alone in its bucket": ([3, 1, 2], (), 1),
    "all in one": ([3, 1, 2], (), 10_000),
    "a single parameter": ([5], (), 64),
    "all are frozen": ([3, 4], (0, 1), 64),
}
AS_LISTS = "return a list of lists of parameters: DDP wants to go through the buckets many times"
EMPTY = (
    "there is a bucket without parameters: at the start, at the end where the last one was just "
    "full, or where there is nothing to put in. Begin one only when a parameter needs it"
)


def examine_make_buckets(answer):
    for case, (sizes, frozen, bucket_bytes) in BUCKETS.items():
        parameters = [nn.Parameter(torch.zeros(size, dtype=torch.float64)) for size in sizes]
        for index in frozen:
            parameters[index].requires_grad_(False)
        got = buckets_from(answer, case, parameters, bucket_bytes)
        wanted = buckets_of_torch(parameters, bucket_bytes)
        if got != wanted:
            guesses = guesses_at_buckets(sizes, frozen, bucket_bytes)
            why = next((why for why, guess in guesses.items() if guess == got), "")
            why = EMPTY if [] in got else why
            what = f"it gave {told(got, sizes)}, expected {told(wanted, sizes)}"
            raise Wrong(f"{case}: bytes of each parameter {[8 * s for s in sizes]}", what, why)
        yield f"{case}: {told(got, sizes)}"


def buckets_from(answer, case, parameters, bucket_bytes):
    """The answer's buckets, as numbers of parameters; `parameters` is as model.parameters() is."""
    try:
        buckets = answer((p for p in parameters), bucket_bytes)
    except (AttributeError, TypeError) as error:
        why = next((why for words, why in BUCKET_ERRORS.items() if words in str(error)), "")
        if not why:
            raise
        raise Wrong(case, f"it raised {type(error).__name__}: {error}", why) from None
    if buckets is None:
        raise Wrong(case, "it returned None", "a function without `return` gives None")
    if not isinstance(buckets, (list, tuple)):
        raise Wrong(case, f"it returned {type(buckets).__name__}", AS_LISTS)
    return [numbers_of(bucket, case, parameters) for bucket in buckets]


BUCKET_ERRORS = {
    "'NoneType' object has no attribute": "there are no gradients yet, `.grad` is None. A gradient "
    "is as large as its parameter: parameter.nbytes",
    "'generator'": "model.parameters() is a generator: it has no length, no order to turn "
    "round, and can be gone through once. Make a list of it first",
}


def numbers_of(bucket, case, parameters) -> list[int]:
    place = {id(parameter): number for number, parameter in enumerate(parameters)}
    if not isinstance(bucket, (list, tuple)):
        raise Wrong(case, f"a bucket is a {type(bucket).__name__}", AS_LISTS)
    if any(id(item) not in place for item in bucket):
        stranger = next(item for item in bucket if id(item) not in place)
        kind = f"a {type(stranger).__name__}, {stranger!r}".splitlines()[0]
        raise Wrong(case, f"in a bucket is {kind:.60}", (
            "a bucket holds the parameters themselves, because their `.grad` comes later: no "
            "copies, parts, names or gradients"
        ))  # fmt: skip
    return [place[id(item)] for item in bucket]


def buckets_of_torch(parameters, bucket_bytes) -> list[list[int]]:
    """What DistributedDataParallel does."""
    order = [k for k in reversed(range(len(parameters))) if parameters[k].requires_grad]
    if not order:
        return []
    tensors = [parameters[number] for number in order]
    buckets = buckets_of_ddp(tensors, bucket_bytes)
    return [[order[index] for index in bucket] for bucket in buckets]


def told(buckets, sizes) -> str:
    return str([[8 * sizes[number] for number in bucket] for bucket in buckets])


def guesses_at_buckets(sizes, frozen, limit):
    """{sentence: the buckets that this misconception gives}."""
    forward = [number for number in range(len(sizes)) if number not in frozen]
    order, all_of_them = forward[::-1], list(range(len(sizes)))[::-1]
    right = closed(order, sizes, limit)
    return {
        "these are in the order of the forward. A backward begins at the end of the model: the "
        "last parameter comes first": closed(forward, sizes, limit),
        "the buckets are made in the order of the forward, and then turned round: the first one to "
        "travel has what was left over": closed(forward, sizes, limit)[::-1],
        "within a bucket they are in the order of the forward: the last parameter comes first "
        "there, too": [sorted(bucket) for bucket in right],
        "this bucket is closed before it would be too large, as in exercise 2.12. Here the "
        "parameter goes in, and what has reached bucket_bytes is closed after it":
            closed_before(order, sizes, limit),
        "elements are counted; bucket_bytes are bytes: parameter.nbytes":
            closed(order, [size / 8 for size in sizes], limit),
        "4 bytes are taken for each element; a double has 8: parameter.nbytes":
            closed(order, [size / 2 for size in sizes], limit),
        "a frozen parameter has no gradient, and needs no bucket":
            closed(all_of_them, sizes, limit),
        "the last bucket is missing: what is left over at the end travels, too": right[:-1],
        "every parameter has a bucket of its own, though several fit": [[k] for k in order],
        "all are in one bucket; from bucket_bytes on, the next parameter begins a new one":
            [order] if order else [],
        "a bucket is closed when it reaches bucket_bytes, not only when it is larger":
            closed(order, sizes, limit + 1),
        "they are sorted by their size. What counts is when a gradient is ready: the order of the "
        "backward": closed(sorted(order, key=lambda k: sizes[k]), sizes, limit),
        "they are sorted by their size, the largest first. What counts is when a gradient is ready":
            closed(sorted(order, key=lambda k: -sizes[k]), sizes, limit),
        "nothing is left to put into buckets: model.parameters() is a generator, and it has been "
        "gone through already. Make a list of it first": [],
    }  # fmt: skip


def closed(order, sizes, limit):
    buckets, full = [], True
    for number in order:
        if full:
            buckets.append([])
        buckets[-1].append(number)
        full = sum(8 * sizes[k] for k in buckets[-1]) >= limit
    return buckets


def closed_before(order, sizes, limit):
    buckets = []
    for number in order:
        if not buckets or sum(8 * sizes[k] for k in [*buckets[-1], number]) > limit:
            buckets.append([])
        buckets[-1].append(number)
    return buckets


EXERCISE = Exercise(
    "3.10", "make_buckets", examine_make_buckets,
    (
        "First make a list of those that have a gradient, and turn it round.",
        "Then go through it with a list of buckets. A parameter goes into the last bucket, "
        "unless that one is closed, or there is none yet: then it begins a new one.",
        "A bucket is closed if sum(p.nbytes for p in bucket) >= bucket_bytes. Look at it after "
        "the parameter has gone in.",
    ),
    lab="gradient_sync_visualizer",
)  # fmt: skip

"""The right results, and the results of known mistakes."""

from pedagogy_lib.basics.torch_private import buckets_of_ddp

from .cases import BYTES, make_tensor


def buckets_of_torch(sizes, frozen, bucket_bytes):
    """Return the buckets that DistributedDataParallel makes."""
    order = backward_of(sizes, frozen)
    tensors = [make_tensor(sizes[number]) for number in order]
    buckets = buckets_of_ddp(tensors, bucket_bytes) if order else []
    return [[order[index] for index in bucket] for bucket in buckets]


def backward_of(sizes, frozen):
    return [number for number in reversed(range(len(sizes))) if number not in frozen]


def close_when_full(order, sizes, limit, bytes_of_element=BYTES):
    """Close a bucket when it has reached the limit."""
    buckets, size = [], limit
    for number in order:
        if size >= limit:
            buckets.append([])
            size = 0
        buckets[-1].append(number)
        size += bytes_of_element * sizes[number]
    return buckets


def len_of(size) -> int:
    shape = make_tensor(size).shape
    return shape[0] if shape else 1


def close_before_overflow(order, sizes, limit):
    """Close a bucket before it would exceed the limit."""
    buckets = []
    for number in order:
        if not buckets or sum(BYTES * sizes[k] for k in [*buckets[-1], number]) > limit:
            buckets.append([])
        buckets[-1].append(number)
    return buckets


def count_frozen_bytes(order, sizes, limit):
    buckets, bucket, size = [], [], 0
    for number in reversed(range(len(sizes))):
        size += BYTES * sizes[number]
        bucket += [number] * (number in order)
        if bucket and size >= limit:
            buckets.append(bucket)
            bucket, size = [], 0
    return buckets + [bucket] * bool(bucket)


# {misconception: function of the order of the backward, the sizes and bucket_bytes}
MISTAKES = {
    "these are in the order of the forward. A backward begins at the end of the model: the last "
    "parameter comes first": lambda order, *rest: close_when_full(order[::-1], *rest),
    "the buckets are made in the order of the forward, and then turned round: the first one to "
    "travel has what was left over": lambda order, *rest: close_when_full(order[::-1], *rest)[::-1],
    "the buckets are made in the order of the forward, and all is turned round then: the first one "
    "to travel has what was left over": lambda order, *rest: [
        bucket[::-1] for bucket in close_when_full(order[::-1], *rest)[::-1]
    ],
    "within a bucket they are in the order of the forward: the last parameter comes first there, "
    "too": lambda *all_: [bucket[::-1] for bucket in close_when_full(*all_)],
    "this bucket is closed before it would be too large, as in exercise {{all_reduce_buckets}}. "
    "Here the parameter "
    "goes in, and what has reached bucket_bytes is closed after it": close_before_overflow,
    "elements are counted; bucket_bytes are bytes: parameter.nbytes": lambda *all_: close_when_full(
        *all_, 1
    ),
    "4 bytes are taken for each element; a half has 2: parameter.nbytes": lambda *all_: (
        close_when_full(*all_, 4)
    ),
    "8 bytes are taken for each element; a half has 2: parameter.nbytes": lambda *all_: (
        close_when_full(*all_, 8)
    ),
    "only the first axis of a parameter is counted, as len() does: "
    "parameter.nbytes": lambda order, sizes, limit: close_when_full(
        order, [len_of(size) for size in sizes], limit
    ),
    "only the first axis of a parameter is counted, and that in elements: "
    "parameter.nbytes": lambda order, sizes, limit: close_when_full(
        order, [len_of(size) for size in sizes], limit, 1
    ),
    "the last bucket is missing: what is left over at the end travels, too": lambda *all_: (
        close_when_full(*all_)[:-1]
    ),
    "the bytes of frozen parameters count, too, and these are in no bucket": count_frozen_bytes,
    "every parameter has a bucket of its own, though several fit": lambda order, *_: [
        [number] for number in order
    ],
    "all are in one bucket; from bucket_bytes on, the next parameter begins a new "
    "one": lambda order, *_: [order],
    "a bucket is closed when it reaches bucket_bytes, not only when it is "
    "larger": lambda order, sizes, limit: close_when_full(order, sizes, limit + 1),
    "they are sorted by their size. What counts is when a gradient is ready: the order of the "
    "backward": lambda order, s, limit: close_when_full(
        sorted(order, key=lambda k: s[k]), s, limit
    ),
    "they are sorted by their size, the largest first. What counts is when a gradient is "
    "ready": lambda order, s, limit: close_when_full(sorted(order, key=lambda k: -s[k]), s, limit),
    "nothing is left to put into buckets: model.parameters() is a generator, and it has been gone "
    "through already. Make a list of it first": lambda *_: [],
}


def adapt_mistake(wrong):
    return lambda sizes, frozen, limit: wrong(backward_of(sizes, frozen), sizes, limit)


ALL_MISTAKES = [
    *((why, adapt_mistake(wrong)) for why, wrong in MISTAKES.items()),
    ("a frozen parameter has no gradient, and needs no bucket",
     lambda sizes, frozen, limit: close_when_full(backward_of(sizes, ()), sizes, limit)),
]  # fmt: skip

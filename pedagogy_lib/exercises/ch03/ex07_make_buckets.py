"""Which gradients travel together. The truth is what torch does."""

import torch
from torch import nn

from ...basics.torch_private import buckets_of_ddp
from ...course.checking import Wrong
from ...course.trying import there
from ..kit import Formula, first_true

DTYPE, BYTES = torch.float16, 2  # of an element: neither 4 nor 8, which are soon written in
ANOTHER = "a Parameter of another model"


# ---- Parameters as numbers ---


def by_number(make_buckets):
    """The same for parameters of these sizes, some of them frozen: their numbers in each bucket."""

    def numbers_of(sizes, frozen, bucket_bytes):
        parameters = parameters_of(sizes, frozen)
        number = {id(parameter): index for index, parameter in enumerate(parameters)}
        buckets = make_buckets((p for p in parameters), bucket_bytes)  # as model.parameters() is
        for some in [buckets, *buckets] if isinstance(buckets, (list, tuple)) else [buckets]:
            if not isinstance(some, (list, tuple)):
                return some if some is None else f"a {type(some).__name__}"
        return [[number.get(id(item), called(item)) for item in bucket] for bucket in buckets]

    return numbers_of


def of_size(size):
    """So many elements: one without an axis, an even number with two axes."""
    shape = () if size == 1 else (2, size // 2) if size % 2 == 0 else (size,)
    return torch.zeros(shape, dtype=DTYPE)


def parameters_of(sizes, frozen) -> list:
    parameters = [nn.Parameter(of_size(size)) for size in sizes]
    for index in frozen:
        parameters[index].requires_grad_(False)
    return parameters


def changes_by(make_buckets, sizes, frozen, bucket_bytes) -> list[str]:
    """What a call changes in the parameters that it is given."""
    parameters = parameters_of(sizes, frozen)
    make_buckets(iter(parameters), bucket_bytes)
    return list(changes_of(parameters, frozen))


def changes_of(parameters, frozen):
    if [p.requires_grad for p in parameters] != [k not in frozen for k in range(len(parameters))]:
        yield "requires_grad of a parameter has changed"
    if any(p.grad is not None for p in parameters):
        yield "a parameter has a `.grad` now"


def called(item) -> str:
    return ANOTHER if isinstance(item, nn.Parameter) else f"a {type(item).__name__}"


def buckets_of_torch(sizes, frozen, bucket_bytes):
    """What DistributedDataParallel does."""
    order = backward_of(sizes, frozen)
    tensors = [of_size(sizes[number]) for number in order]
    buckets = buckets_of_ddp(tensors, bucket_bytes) if order else []
    return [[order[index] for index in bucket] for bucket in buckets]


def told(buckets, sizes) -> str:
    return str([[k if isinstance(k, str) else BYTES * sizes[k] for k in bucket]
                for bucket in buckets])  # fmt: skip


# ---- Mistakes ---


def backward_of(sizes, frozen):
    return [number for number in reversed(range(len(sizes))) if number not in frozen]


def closed(order, sizes, limit, bytes_of_element=BYTES):
    """A bucket is closed when it has reached the limit."""
    buckets, size = [], limit
    for number in order:
        if size >= limit:
            buckets.append([])
            size = 0
        buckets[-1].append(number)
        size += bytes_of_element * sizes[number]
    return buckets


def len_of(size) -> int:
    shape = of_size(size).shape
    return shape[0] if shape else 1


def closed_before(order, sizes, limit):
    """A bucket is closed before it would be larger than the limit."""
    buckets = []
    for number in order:
        if not buckets or sum(BYTES * sizes[k] for k in [*buckets[-1], number]) > limit:
            buckets.append([])
        buckets[-1].append(number)
    return buckets


def with_frozen_bytes(order, sizes, limit):
    buckets, bucket, size = [], [], 0
    for number in reversed(range(len(sizes))):
        size += BYTES * sizes[number]
        bucket += [number] * (number in order)
        if bucket and size >= limit:
            buckets.append(bucket)
            bucket, size = [], 0
    return buckets + [bucket] * bool(bucket)


# From the order of the backward, the sizes and bucket_bytes.
MISTAKES = {
    "these are in the order of the forward. A backward begins at the end of the model: the last "
    "parameter comes first": lambda order, *rest: closed(order[::-1], *rest),
    "the buckets are made in the order of the forward, and then turned round: the first one to "
    "travel has what was left over": lambda order, *rest: closed(order[::-1], *rest)[::-1],
    "the buckets are made in the order of the forward, and all is turned round then: the first one "
    "to travel has what was left over":
        lambda order, *rest: [bucket[::-1] for bucket in closed(order[::-1], *rest)[::-1]],
    "within a bucket they are in the order of the forward: the last parameter comes first there, "
    "too": lambda *all_: [bucket[::-1] for bucket in closed(*all_)],
    "this bucket is closed before it would be too large, as in exercise 2.13. Here the parameter "
    "goes in, and what has reached bucket_bytes is closed after it": closed_before,
    "elements are counted; bucket_bytes are bytes: parameter.nbytes":
        lambda *all_: closed(*all_, 1),
    "4 bytes are taken for each element; a half has 2: parameter.nbytes":
        lambda *all_: closed(*all_, 4),
    "8 bytes are taken for each element; a half has 2: parameter.nbytes":
        lambda *all_: closed(*all_, 8),
    "only the first axis of a parameter is counted, as len() does: parameter.nbytes":
        lambda order, sizes, limit: closed(order, [len_of(size) for size in sizes], limit),
    "only the first axis of a parameter is counted, and that in elements: parameter.nbytes":
        lambda order, sizes, limit: closed(order, [len_of(size) for size in sizes], limit, 1),
    "the last bucket is missing: what is left over at the end travels, too":
        lambda *all_: closed(*all_)[:-1],
    "the bytes of frozen parameters count, too, and these are in no bucket": with_frozen_bytes,
    "every parameter has a bucket of its own, though several fit":
        lambda order, *_: [[number] for number in order],
    "all are in one bucket; from bucket_bytes on, the next parameter begins a new one":
        lambda order, *_: [order],
    "a bucket is closed when it reaches bucket_bytes, not only when it is larger":
        lambda order, sizes, limit: closed(order, sizes, limit + 1),
    "they are sorted by their size. What counts is when a gradient is ready: the order of the "
    "backward": lambda order, s, limit: closed(sorted(order, key=lambda k: s[k]), s, limit),
    "they are sorted by their size, the largest first. What counts is when a gradient is ready":
        lambda order, s, limit: closed(sorted(order, key=lambda k: -s[k]), s, limit),
    "nothing is left to put into buckets: model.parameters() is a generator, and it has been gone "
    "through already. Make a list of it first": lambda *_: [],
}  # fmt: skip


def in_backward(wrong):
    return lambda sizes, frozen, limit: wrong(backward_of(sizes, frozen), sizes, limit)


def why_no_bucket(found, case) -> str:
    buckets = found[case][0] if isinstance(found[case][0], list) else []
    return first_true({
        "these are parameters of another model: what an earlier call has left is still in it. Each "
        "call begins anew": any(item == ANOTHER for bucket in buckets for item in bucket),
        "a bucket holds the parameters themselves, because their `.grad` comes later: no copies, "
        "parts, names or gradients":
            any(isinstance(item, str) for bucket in buckets for item in bucket),
        "there is a bucket without parameters: at the start, at the end where the last one was "
        "just full, or where there is nothing to put in. Begin one only when a parameter needs "
        "it": [] in buckets,
    })  # fmt: skip


class Buckets(Formula):
    """A formula whose arguments and values are numbers, for an answer that gets parameters."""

    def examine(self, answer):
        if answer in [self.truth, *(function for _, function in self.mistakes)]:
            yield from super().examine(answer)
            return
        yield from super().examine(by_number(answer))
        calls = (call for case in self.cases.values() for call in case)
        changed = next(filter(None, (there(changes_by, answer, *call) for call in calls)), None)
        if changed:
            raise Wrong(
                "afterwards", f"the buckets are right, but {changed[0]}", "asked are lists of the "
                "parameters alone: leave the parameters themselves as they are",
            )  # fmt: skip


EXERCISE = Buckets(
    "3.7",
    "make_buckets",
    lab="gradient_sync_visualizer",
    cases={  # elements of each parameter, the frozen ones, bucket_bytes
        "six parameters, buckets of 16 bytes": [([3, 2, 70, 5, 9, 4], (), 16)],
        "a bucket that is exactly full": [([2, 4, 4, 3, 5], (), 16)],
        "a parameter larger than a bucket": [([2, 3, 40, 1, 4, 4], (), 16)],
        "some are frozen": [([3, 6, 2, 9, 7, 4], (1, 5), 16)],
        "each alone in its bucket": [([3, 1, 2], (), 1)],
        "all in one": [([3, 1, 2], (), 2_500)],
        "a single parameter": [([5], (), 16)],
        "all are frozen": [([3, 4], (0, 1), 16)],
    },
    truth=buckets_of_torch,
    mistakes=[
        *((why, in_backward(wrong)) for why, wrong in MISTAKES.items()),
        ("a frozen parameter has no gradient, and needs no bucket",
         lambda sizes, frozen, limit: closed(backward_of(sizes, ()), sizes, limit)),
    ],
    told=lambda calls, found: told(found[0], calls[0][0]),
    differs=lambda call, wanted, got: (
        f"it gave {told(got, call[0])}, expected "
        f"{told(wanted, call[0])}; bytes of each parameter {told([range(len(call[0]))], call[0])}"
    ),
    asked="a list of lists of parameters",
    shape="return a list of lists of parameters: DDP wants to go through the buckets many times",
    errors={
        "'NoneType' object has no attribute": "there are no gradients yet, `.grad` is None. A "
        "gradient is as large as its parameter: parameter.nbytes",
        "'generator'": "model.parameters() is a generator: it has no length, no order to turn "
        "round, and can be gone through once. Make a list of it first",
    },
    explain=why_no_bucket,
    hints=(
        "First make a list of those that have a gradient, and turn it round.",
        "Then go through it with a list of buckets. A parameter goes into the last bucket, unless "
        "that one is closed, or there is none yet: then it begins a new one.",
        "A bucket is closed if sum(p.nbytes for p in bucket) >= bucket_bytes. Look at it after the "
        "parameter has gone in.",
    ),
)  # fmt: skip

"""The right results, and the results of known mistakes."""

from .cases import NOTHING_FITS


def count_held_samples(size, stages, samples) -> int:
    """Return how many samples the first stage keeps at a time under 1F1B."""
    return size * min(stages, samples // size)


def largest(fits):
    """Return a search for the largest divisor of `samples` that fits, or 0."""

    def find_largest(room, states, activations, stages, samples):
        sizes = [size for size in range(1, samples + 1) if samples % size == 0]
        left = room - states
        return max((s for s in sizes if fits(s, left, activations, stages, samples)), default=0)

    return find_largest


def search_without_divisors(fits):
    """Return a search for the largest size that fits, whether it divides `samples` or not, or 0."""

    def search_sizes(room, states, a, stages, samples):
        sizes = range(1, samples + 1)
        return max((s for s in sizes if fits(s, room - states, a, stages, samples)), default=0)

    return search_sizes


truth = largest(
    lambda size, left, a, stages, samples: a * count_held_samples(size, stages, samples) <= left
)

any_size = search_without_divisors(
    lambda size, left, a, stages, samples: a * min(stages * size, samples) <= left
)

any_size_kept = search_without_divisors(
    lambda size, left, a, stages, samples: a * count_held_samples(size, stages, samples) <= left
)


def powers(room, states, activations, stages, samples):
    size = 1
    if truth(room, states, activations, stages, samples) == 0:
        return 0
    while samples % (2 * size) == 0 and activations * count_held_samples(
        2 * size, stages, samples
    ) <= (room - states):
        size *= 2
    return size


MISTAKES = [
    (
        "under 1F1B the first stage keeps as many micro-batches as there are stages, not one.",
        largest(lambda size, left, a, stages, samples: a * size <= left),
    ),
    (
        "this keeps all micro-batches at a time, as GPipe does. 1F1B keeps at most as many as "
        "there are stages.",
        largest(lambda size, left, a, stages, samples: a * samples <= left),
    ),
    (
        "there may be fewer micro-batches than stages: then no more of them are kept.",
        largest(lambda size, left, a, stages, samples: a * size * stages <= left),
    ),
    (
        "what just fits, fits.",
        largest(
            lambda size, left, a, stages, samples: (
                a * count_held_samples(size, stages, samples) < left
            )
        ),
    ),
    (
        "the states need room, too.",
        lambda room, states, a, stages, samples: truth(room, 0, a, stages, samples),
    ),
    (
        "micro-batches of this size do not divide the samples: one of them would be smaller.",
        any_size,
    ),
    (
        "micro-batches of this size do not divide the samples: one of them would be smaller.",
        any_size_kept,
    ),
    (
        "this counts micro-batches, but `activations` are the bytes of one sample: a "
        "micro-batch of 4 samples keeps four times as much.",
        largest(lambda s, left, a, stages, samples: a * min(stages, samples // s) <= left),
    ),
    (
        "the first stage keeps as many micro-batches as there are stages, not one less.",
        largest(lambda s, left, a, stages, n: a * s * min(stages - 1, n // s) <= left),
    ),
    (
        "`activations` is what a sample keeps on one stage: do not divide it by the stages.",
        largest(
            lambda s, left, a, stages, n: a / stages * count_held_samples(s, stages, n) <= left
        ),
    ),
    (
        "`states` is what lies on one GPU: do not divide it by the stages.",
        lambda room, states, a, stages, n: truth(room, states / stages, a, stages, n),
    ),
    (
        "this is how many micro-batches there are; asked is how many samples one has.",
        lambda *args: args[-1] // truth(*args) if truth(*args) else 0,
    ),
    (
        "all samples in one micro-batch is a size, too.",
        largest(
            lambda s, left, a, stages, n: s < n and a * count_held_samples(s, stages, n) <= left
        ),
    ),
    (
        "this looks at powers of 2 alone. Any size that divides the samples is one.",
        powers,
    ),
    (
        "this is the smallest size, not the largest one.",
        lambda *args: min(truth(*args), 1),
    ),
    (
        NOTHING_FITS,
        lambda *args: max(truth(*args), 1),
    ),
    (
        NOTHING_FITS,
        lambda *args: truth(*args) or -1,
    ),
]

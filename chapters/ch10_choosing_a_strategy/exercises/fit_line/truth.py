"""The right results, and the results of known mistakes."""

from fractions import Fraction


def sums(sizes, seconds):
    x, y = [Fraction(v) for v in sizes], [Fraction(v) for v in seconds]
    return len(x), sum(x), sum(y), sum(a * a for a in x), sum(a * b for a, b in zip(x, y))


def truth(sizes, seconds):
    n, sx, sy, sxx, sxy = sums(sizes, seconds)
    determinant = n * sxx - sx * sx
    slope = (n * sxy - sx * sy) / determinant
    return [float((sxx * sy - sx * sxy) / determinant), float(1 / slope)]


def ends(sizes, seconds):
    low, high = sizes.index(min(sizes)), sizes.index(max(sizes))
    slope = (seconds[high] - seconds[low]) / (sizes[high] - sizes[low])
    return [seconds[low] - slope * sizes[low], 1 / slope]


def fit_through_zero(sizes, seconds):
    *_, sxx, sxy = sums(sizes, seconds)
    return [0.0, float(sxx / sxy)]


def once_each(choose):
    """Return a fit that uses one time per size, which `choose` takes from all of them."""

    def mistaken(sizes, seconds):
        of = {}
        for size, time in zip(sizes, seconds):
            of.setdefault(size, []).append(time)
        return truth(list(of), [choose(times) for times in of.values()])

    return mistaken


def bytes_of_seconds(sizes, seconds):
    """Fit a line through the bytes over the seconds."""
    start, slope = truth(seconds, sizes)
    return [-start * slope, 1 / slope]


MISTAKES = [
    (
        "the second value is the slope, seconds for a byte; asked are bytes for a second.",
        lambda sizes, seconds: [truth(sizes, seconds)[0], 1 / truth(sizes, seconds)[1]],
    ),
    (
        "this is the line through the smallest and the largest message. The others count, too.",
        ends,
    ),
    (
        "this line goes through zero. A message without bytes takes the latency.",
        fit_through_zero,
    ),
    (
        "numpy.polyfit gives the slope first: seconds for each byte.",
        lambda sizes, seconds: [1 / truth(sizes, seconds)[1], truth(sizes, seconds)[0]],
    ),
    (
        "numpy.polyfit gives the slope first, then where the line meets 0 bytes.",
        lambda sizes, seconds: [1 / truth(sizes, seconds)[1], 1 / truth(sizes, seconds)[0]],
    ),
    (
        "this is the line with the smallest squared distances in bytes. Asked is the one with "
        "the smallest in seconds.",
        bytes_of_seconds,
    ),
    (
        "each list is sorted on its own, and the n-th size no longer belongs to the n-th time.",
        lambda sizes, seconds: truth(sorted(sizes), sorted(seconds)),
    ),
    (
        "a size may stand several times in the list, and each of its times counts. A dict "
        "keeps one.",
        once_each(lambda times: times[-1]),
    ),
    (
        "a size may stand several times in the list, and each of its times counts. This "
        "counts their mean, once.",
        once_each(lambda times: sum(times) / len(times)),
    ),
    (
        "a line may meet 0 bytes below 0 s. That is the value asked for, though no message "
        "takes less than no time.",
        lambda sizes, seconds: [max(0.0, truth(sizes, seconds)[0]), truth(sizes, seconds)[1]],
    ),
    (
        "a line may meet 0 bytes below 0 s. That is the value asked for, though no message "
        "takes less than no time.",
        lambda sizes, seconds: [abs(truth(sizes, seconds)[0]), truth(sizes, seconds)[1]],
    ),
    (
        "this is the mean of all seconds, and not where the line meets 0 bytes.",
        lambda sizes, seconds: [sum(seconds) / len(seconds), truth(sizes, seconds)[1]],
    ),
    (
        "this is the line through the first two messages. The others count, too.",
        lambda sizes, seconds: truth(sizes[:2], seconds[:2]),
    ),
    (
        "this is in megabytes a second; asked are bytes a second.",
        lambda sizes, seconds: [truth(sizes, seconds)[0], 1e-6 * truth(sizes, seconds)[1]],
    ),
    (
        "the latency is in milliseconds here; asked are seconds.",
        lambda sizes, seconds: [1e3 * truth(sizes, seconds)[0], truth(sizes, seconds)[1]],
    ),
    (
        "the two values are in the other order: first seconds, then bytes a second.",
        lambda sizes, seconds: truth(sizes, seconds)[::-1],
    ),
    (
        "the latency is where the line meets 0 bytes, not the time of the smallest message.",
        lambda sizes, seconds: [
            seconds[sizes.index(min(sizes))], truth(sizes, seconds)[1]
        ],
    ),
    (
        "this is the mean of bytes / seconds. It counts the latency of each message as if it "
        "were sent bytes.",
        lambda sizes, seconds: [
            truth(sizes, seconds)[0],
            sum(s / t for s, t in zip(sizes, seconds)) / len(sizes),
        ],
    ),
    (
        "this is all bytes divided by all seconds: latencies are in it.",
        lambda sizes, seconds: [truth(sizes, seconds)[0], sum(sizes) / sum(seconds)],
    ),
]  # fmt: skip

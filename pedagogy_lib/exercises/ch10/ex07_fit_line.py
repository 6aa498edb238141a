"""Latency and bandwidth from measured messages. The truth solves the normal equations exactly."""

from fractions import Fraction

from ..kit import Formula


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


def through_zero(sizes, seconds):
    *_, sxx, sxy = sums(sizes, seconds)
    return [0.0, float(sxx / sxy)]


EXERCISE = Formula(
    "10.7",
    "fit_line",
    cases={
        "0, 10 and 20 bytes": [([0, 10, 20], [1.0, 2.0, 3.0])],
        "two messages": [([100, 400], [5.0, 11.0])],
        "not on a line": [([0, 10, 20, 30], [1.0, 3.0, 3.0, 6.0])],
        "in any order": [([30, 0, 20, 10], [6.0, 1.0, 3.0, 3.0])],
        "no latency": [([10, 20, 40], [1.0, 2.0, 4.0])],
        "bytes by the thousand": [
            ([1000, 10000, 100000, 300000], [0.0011, 0.0018, 0.0109, 0.0313])
        ],
    },
    truth=truth,
    mistakes=[
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
            through_zero,
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
    ],
    asked="two values: seconds, and bytes a second",
    shape="return two numbers: the latency in seconds, and the bytes a second",
    hints=(
        "The line is seconds = latency + bytes / bandwidth. numpy.polyfit finds the line with the "
        "smallest squared distances.",
        "Its slope is in seconds for each byte.",
    ),
)  # fmt: skip

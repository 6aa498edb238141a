"""Latency and bandwidth from measured messages. The truth solves the normal equations exactly."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

EXERCISE = Formula(
    "fit_line",
    cases={
        "0, 10 and 20 bytes": [([0, 10, 20], [1.0, 2.0, 3.0])],
        "two messages": [([100, 400], [5.0, 11.0])],
        "not on a line": [([0, 10, 20, 30], [1.0, 3.0, 3.0, 6.0])],
        "in any order": [([30, 0, 20, 10], [6.0, 1.0, 3.0, 3.0])],
        "a longer message that took less": [([10, 20, 30, 40], [3.0, 2.0, 6.0, 5.0])],
        "a size that was measured twice": [([10, 10, 30, 40], [1.0, 3.0, 4.0, 6.0])],
        "a latency below 0": [([10, 20, 30], [1.0, 2.0, 4.0])],
        "no latency": [([10, 20, 40], [1.0, 2.0, 4.0])],
        "bytes by the thousand": [
            ([1000, 10000, 100000, 300000], [0.0011, 0.0018, 0.0109, 0.0313])
        ],
    },
    truth=truth,
    mistakes=MISTAKES,
    asked="two values: seconds, and bytes a second",
    shape="return two numbers: the latency in seconds, and the bytes a second",
    hints=(
        "The line is seconds = latency + bytes / bandwidth. numpy.polyfit finds the line with the "
        "smallest squared distances.",
        "Its slope is in seconds for each byte.",
    ),
)  # fmt: skip

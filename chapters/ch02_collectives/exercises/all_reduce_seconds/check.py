"""Latency and bandwidth of an all-reduce, along a ring and along a tree."""

from coursekit.kit import Formula

from .truth import MISTAKES, seconds

SIZES = [  # (n, bytes, alpha, B)
    (8, 8e6, 1e-4, 1e9),
    (4, 7.0, 1e-3, 1e3),
    (5, 3e7, 2e-4, 5e8),
    (65, 6.5e7, 1e-4, 1e9),
    (2, 4e3, 1e-4, 1e9),
]

EXERCISE = Formula(
    "all_reduce_seconds",
    cases={
        f"{how}, {n} ranks, {x:g} bytes, {alpha:g} s, {B:g} bytes/s": [(how, n, x, alpha, B)]
        for how in ("ring", "tree")
        for n, x, alpha, B in SIZES
    },
    truth=seconds,
    unit=" s",
    mistakes=MISTAKES,
    hints=(
        "Count the messages that have to follow each other, and say how long one takes: alpha "
        "+ bytes / B.",
        "Ring: 2 (n - 1) steps of X / n. Tree: up and down again, ceil(log2 n) rounds each, of "
        "all X.",
    ),
)  # fmt: skip

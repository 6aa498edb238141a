"""The time to exchange gradients, through a server and round a ring."""

from coursekit.kit import Formula

from .truth import MISTAKES, seconds

EXCHANGES = [  # (how, n, X, B)
    ("server", 10, 6e6, 1.5e6), ("server", 2, 1e9, 1e10), ("server", 5, 3e5, 2e6),
    ("ring", 10, 6e6, 1.5e6), ("ring", 2, 1e9, 1e10), ("ring", 3, 1000.0, 2000.0),
    ("ring", 64, 1000.0, 3e9), ("server", 33, 50.0, 7e8),
]  # fmt: skip

EXERCISE = Formula(
    "exchange_seconds",
    cases={
        f'"{how}", n = {n}, X = {X:g} bytes, B = {B:g} bytes/s': [(how, n, X, B)]
        for how, n, X, B in EXCHANGES
    },
    truth=seconds,
    unit=" s",
    mistakes=MISTAKES,
    hints=(
        "Look for the link that has most to carry, and count its bytes in each direction.",
        "Server: n - 1 workers pull X through its one link; then they push X, each. Ring: all "
        "links carry the same at the same time.",
        "A ring all-reduce has 2 (n - 1) steps, and in each of them a rank sends X / n.",
    ),
)  # fmt: skip

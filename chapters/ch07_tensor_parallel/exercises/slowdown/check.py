"""The slowdown of a step whose ring all-reduces leave the node."""

from coursekit.kit import Formula

from .cases import STEPS, seconds
from .truth import MISTAKES, ratio

MORE = {
    "2 ranks, a slow network": (0.5, 7, 8_000_000, 5, (2e9, 1e-4), (1.25e8, 1e-3)),
    "no compute at all": (1e-9, 3, 10, 4, (1e10, 0.0), (1e9, 0.0)),
    "nothing to sum": (0.3, 6, 1_000_000, 1, (1e10, 1e-5), (1e9, 1e-4)),  # one rank
}


def report_seconds(calls, values) -> str:
    *work, inside, between = calls[0]
    slow, fast = (1e3 * seconds(*work, link) for link in (between, inside))
    return f"{slow:.4g} ms beside {fast:.4g} ms a step, {slow / fast:.4g} times"


EXERCISE = Formula(
    "slowdown",
    cases={case: [call, *([MORE[case]] if case in MORE else [])] for case, call in STEPS.items()},
    truth=ratio,
    right=report_seconds,
    errors={
        **dict.fromkeys(
            ("unsupported operand", "can't multiply", "must be real number"),
            "inside and between are pairs: bytes_per_second, latency = inside"),
        "division by zero": "a latency may be 0, as the compute and the sums may: nothing is "
        "divided by them. A pair is (bytes per second, latency), in this order",
    },
    mistakes=MISTAKES,
    hints=(
        "Write down first how long one step takes with one kind of link; then divide.",
        "An all-reduce is 2 (n - 1) messages, one after another. How long does one take, with "
        "its latency, and how many bytes has it?",
        "A step: compute_seconds + sums * (messages of one) * (latency + bytes of a message / "
        "bytes_per_second). That of `between` is divided by that of `inside`.",
    ),
)  # fmt: skip

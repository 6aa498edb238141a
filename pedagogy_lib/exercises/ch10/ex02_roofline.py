"""What limits a kernel. The truth is the larger of two times."""

from ..kit import Formula


def truth(flops, nbytes, peak, bandwidth):
    times = {"computing": flops / peak, "memory": nbytes / bandwidth}
    slowest = max(times.values())
    return [slowest, next(name for name in times if times[name] == slowest)]


def other_name(*args):
    seconds, name = truth(*args)
    return [seconds, "memory" if name == "computing" else "computing"]


EXERCISE = Formula(
    "10.2",
    "roofline_seconds",
    cases={
        "600 FLOPs, 10 bytes": [(600, 10, 100, 2)],
        "600 FLOPs, 20 bytes": [(600, 20, 100, 2)],
        "both take as long": [(500, 10, 100, 2)],
        "nothing to compute": [(0, 8, 100, 2)],
        "one token through 16 GB of weights, H100": [(16e9, 16e9, 989.5e12, 3.35e12)],
        "4,096 tokens through them": [(4096 * 16e9, 16e9, 989.5e12, 3.35e12)],
    },
    truth=truth,
    mistakes=[
        (
            "these are both times, one after the other. Computing and reading go on at the same "
            "time: the slower one decides.",
            lambda f, n, peak, b: [f / peak + n / b, truth(f, n, peak, b)[1]],
        ),
        (
            "this is the faster of both. The kernel is done when both are.",
            lambda f, n, peak, b: [min(f / peak, n / b), truth(f, n, peak, b)[1]],
        ),
        (
            "this is the faster of both, and its name. The kernel is done when both are.",
            lambda f, n, peak, b: [min(f / peak, n / b), other_name(f, n, peak, b)[1]],
        ),
        (
            "the seconds are right, the name is that of the faster one: it does not limit.",
            other_name,
        ),
        ("this is computing alone.", lambda f, n, peak, b: [f / peak, "computing"]),
        ("this is the memory alone.", lambda f, n, peak, b: [n / b, "memory"]),
        (
            "if both take as long, the name is computing.",
            lambda f, n, peak, b: [
                truth(f, n, peak, b)[0], "computing" if f / peak > n / b else "memory"
            ],
        ),
        (
            "these are FLOPS, how many operations a second; asked are seconds.",
            lambda f, n, peak, b: [min(peak, f / n * b), truth(f, n, peak, b)[1]],
        ),
    ],
    asked="two values: seconds, and a name",
    shape='return two values: seconds, and "computing" or "memory"',
    hints=(
        "How long does computing take, if the memory were endlessly fast? And the other way round?",
        "The two go on at the same time.",
    ),
)  # fmt: skip

"""What limits a kernel. The truth is the larger of two times."""

from ..kit import Formula


def truth(flops, nbytes, peak, bandwidth):
    times = {"computing": flops / peak, "memory": nbytes / bandwidth}
    slowest = max(times.values())
    return [slowest, next(name for name in times if times[name] == slowest)]


def other_name(*args):
    seconds, name = truth(*args)
    return [seconds, "memory" if name == "computing" else "computing"]


def faster(flops, nbytes, peak, bandwidth):
    """The smaller time, and its name."""
    computing, memory = flops / peak, nbytes / bandwidth
    return [computing, "computing"] if computing <= memory else [memory, "memory"]


def explain(found, case):
    """What is wrong about the form of the two values."""
    if len(found[case][0]) != 2:
        return "two values are asked, the longer time and its name."
    first, second = found[case][0]
    if isinstance(first, str) and isinstance(second, (int, float)):
        return "the seconds come first, then the name."
    if isinstance(first, str):
        return "the seconds are a number, without quotes."
    if second not in ("computing", "memory"):
        return 'the second value is a name: "computing" or "memory", written like this.'
    return ""


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
            faster,
        ),
        (
            "this is the faster of both, and its name. The kernel is done when both are.",
            lambda f, n, peak, b: [min(f / peak, n / b), other_name(f, n, peak, b)[1]],
        ),
        (
            "the seconds are right, the name is that of the faster one: it does not limit.",
            other_name,
        ),
        (
            "the seconds are right, the name is that of the faster one: it does not limit.",
            lambda *args: [truth(*args)[0], faster(*args)[1]],
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
            "seconds need not be whole: // rounds them down, / does not.",
            lambda f, n, peak, b: [
                max(f // peak, n // b), "computing" if f // peak >= n // b else "memory"
            ],
        ),
        (
            "`peak` counts operations a second, and `bandwidth` bytes a second: here they are "
            "swapped.",
            lambda f, n, peak, b: truth(f, n, b, peak),
        ),
        (
            "bandwidth is in bytes a second here, not in bits.",
            lambda f, n, peak, b: truth(f, 8 * n, peak, b),
        ),
        (
            "the name is that of the longer time. More operations than bytes need not take longer.",
            lambda f, n, peak, b: [truth(f, n, peak, b)[0], "computing" if f >= n else "memory"],
        ),
        (
            "these are operations a second; asked are seconds.",
            lambda f, n, peak, b: [min(peak, f / n * b), truth(f, n, peak, b)[1]],
        ),
    ],
    explain=explain,
    asked="two values: seconds, and a name",
    shape='return two values: seconds, and "computing" or "memory"',
    hints=(
        "How long does computing take, if the memory were endlessly fast? And the other way round?",
        "The two go on at the same time.",
    ),
)  # fmt: skip

"""The right results, and the results of known mistakes."""


def truth(flops, nbytes, peak, bandwidth):
    times = {"computing": flops / peak, "memory": nbytes / bandwidth}
    slowest = max(times.values())
    return [slowest, next(name for name in times if times[name] == slowest)]


def other_name(*args):
    seconds, name = truth(*args)
    return [seconds, "memory" if name == "computing" else "computing"]


def faster(flops, nbytes, peak, bandwidth):
    """Return the smaller time, and its name."""
    computing, memory = flops / peak, nbytes / bandwidth
    return [computing, "computing"] if computing <= memory else [memory, "memory"]


MISTAKES = [
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
]  # fmt: skip

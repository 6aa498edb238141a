"""The right results, and the results of known mistakes."""


def ring(n, nbytes) -> float:
    """Return the bytes that each rank sends in an all-reduce: 2(n-1) chunks."""
    return sum(nbytes / n for _ in range(2 * (n - 1)))


def truth(sizes, stage, activation_bytes, blocks, parameter_bytes):
    of_blocks = [ring(sizes["tp"], activation_bytes) for _ in range(4 * blocks)]
    neighbours = [other for other in (stage - 1, stage + 1) if 0 <= other < sizes["pp"]]
    return {
        "dp": ring(sizes["dp"], parameter_bytes),
        "pp": float(activation_bytes * len(neighbours)),
        "tp": float(sum(of_blocks)),
    }


def but(**changed):
    """Return the truth with other functions, of the same arguments, for some axes."""

    def mistaken(*args):
        return truth(*args) | {axis: float(function(*args)) for axis, function in changed.items()}

    return mistaken


MISTAKES = [
    (
        "with 2 ranks an all-reduce sends its tensor once; with more it sends up to twice as "
        "much: 2 (n - 1) / n.",
        but(
            dp=lambda sizes, s, a, b, p: p * (sizes["dp"] > 1),
            tp=lambda sizes, s, a, b, p: 4 * b * a * (sizes["tp"] > 1),
        ),
    ),
    (
        "along dp and tp these are reduce-scatters. An all-reduce sends twice as much.",
        but(dp=lambda *args: truth(*args)["dp"] / 2, tp=lambda *args: truth(*args)["tp"] / 2),
    ),
    (
        "along tp this is the forward alone, or the backward alone: each has 2 all-reduces in "
        "a block.",
        but(tp=lambda *args: truth(*args)["tp"] / 2),
    ),
    (
        "along tp this is one all-reduce in a block. There are four: two forward, and two "
        "backward.",
        but(tp=lambda *args: truth(*args)["tp"] / 4),
    ),
    (
        "along tp this is one block: the rank has several, and each sends.",
        but(tp=lambda sizes, s, a, b, p: truth(sizes, s, a, 1, p)["tp"]),
    ),
    (
        "along pp the first stage has nobody before it, and the last one nobody after it.",
        but(pp=lambda sizes, s, a, b, p: 2 * a * (sizes["pp"] > 1)),
    ),
    (
        "along pp a stage between two others sends twice: activations to the next one, and "
        "gradients to the one before.",
        but(pp=lambda sizes, s, a, b, p: a * (sizes["pp"] > 1)),
    ),
    (
        "along pp with one stage there is nobody: nothing is sent.",
        but(pp=lambda sizes, s, a, b, p: a * ((s > 0) + (s < sizes["pp"] - 1) or 1)),
    ),
    (
        "along pp this is what a stage sends to the next one alone. Backward it sends as much "
        "to the one before.",
        but(pp=lambda sizes, s, a, b, p: a * (s < sizes["pp"] - 1)),
    ),
    (
        "along pp the last stage is number pp - 1, as the first one is number 0.",
        but(pp=lambda sizes, s, a, b, p: a * ((s > 0) + (s < sizes["pp"]))),
    ),
    (
        "along dp the gradients travel: as many bytes as the parameters have, not the activations.",
        but(dp=lambda sizes, s, a, b, p: ring(sizes["dp"], a)),
    ),
    (
        "along dp this is the sum over all ranks; asked is what one sends.",
        but(dp=lambda sizes, s, a, b, p: sizes["dp"] * ring(sizes["dp"], p)),
    ),
]

"""The time and the limit of a kernel. The truth is the larger of two times."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth


def explain(found, case):
    """Return the diagnosis of two values in a wrong form, or ""."""
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
    mistakes=MISTAKES,
    explain=explain,
    asked="two values: seconds, and a name",
    shape='return two values: seconds, and "computing" or "memory"',
    hints=(
        "How long does computing take, if the memory were endlessly fast? And the other way round?",
        "The two go on at the same time.",
    ),
)  # fmt: skip

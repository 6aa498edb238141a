"""The longest context that attention has room for, for each way of dividing it among ranks."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

WAYS = ("one process", "all keys", "by heads", "ring")


def cases():
    small = {f"{way}, 2 ranks, 2 heads, 10 kB": [(10_000, 2, 2, 4, way)] for way in WAYS}
    large = {f"{way}, 4 ranks, 4 heads, 16 MB": [(16_000_000, 4, 4, 16, way)] for way in WAYS}
    odd = {f"{way}, 3 ranks, 6 heads, 1 MB": [(1_000_000, 3, 6, 8, way)] for way in WAYS}
    return small | large | odd | {"ring, exactly as many bytes": [(10_080, 2, 2, 4, "ring")]}


EXERCISE = Formula(
    "largest_context",
    cases=cases() | {"no room for anything": [(10, 2, 2, 4, "ring")]},
    truth=truth,
    mistakes=MISTAKES,
    unit=" places",
    hints=(
        "How many bytes does each way need for a context C? Write that as a function first.",
        "Scores: heads × C × C alone, heads × C/n × C with all keys, heads/n × C × C by heads, "
        "heads × C/n × C/n in a ring.",
        "Then try one multiple of n after another, as long as it fits.",
    ),
)  # fmt: skip

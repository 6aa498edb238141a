"""The best time between two saves, if failures come at random."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

CASES = [(10.0, 3600.0), (60.0, 10_000.0), (0.5, 100.0), (30, 86_400)]

EXERCISE = Formula(
    "best_period",
    cases={
        f"{saving:g} s for a saving, {failure:g} s between failures": [(saving, failure)]
        for saving, failure in CASES
    },
    truth=truth,
    unit=" s",
    asked="a number of seconds",
    mistakes=MISTAKES,
    hints=(
        "Take a period P. Which share of the time do savings take? How much does one failure lose, "
        "and how many come in a second?",
        "The cost is saving / P + P / (2 × failure). The longer P, the smaller the first share and "
        "the larger the second. Where is the sum smallest?",
        "Where the derivative by P is 0: saving / P² = 1 / (2 × failure).",
    ),
)  # fmt: skip

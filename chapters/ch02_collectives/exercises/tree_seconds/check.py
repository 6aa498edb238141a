"""The seconds in which a file reaches all computers along a tree."""

from coursekit.kit import Formula
from pedagogy_lib.basics.units import format_count

from .cases import MEGABYTES, SPEED
from .truth import MISTAKES, truth

COMPUTERS = (8, 2, 4, 1, 16, 5, 7, 100)

CALLS = [*((n, MEGABYTES, SPEED) for n in COMPUTERS), (8, 3.0, 1.6), (8, 5.0, 0.7)]

EXERCISE = Formula(
    "tree_seconds",
    cases={
        f"{format_count(n, 'computer')}, {mb:g} MB, {speed:g} MB/s": [(n, mb, speed)]
        for n, mb, speed in CALLS
    },
    truth=truth,
    unit=" s",
    mistakes=MISTAKES,
    errors={"math domain error": "one computer alone has the file already: that takes no round, "
            "and there is no logarithm of 0."},
    hints=(
        "Write down how many have the file after 0, 1, 2, 3 rounds.",
        "Rounds until at least n have it: that is a logarithm, rounded up (math.ceil).",
    ),
)  # fmt: skip

"""`progress`: what has been done of a part, in one line."""

import re
from html import escape

from ..basics.errors import need
from ..basics.places import COURSE
from ..basics.units import brief, counted
from .kept import solved_among
from .predictions import COMPARED
from .verdicts import BADGES

CHECK = re.compile(r'\bcheck\(\\?"(\d+\.\d+)')
MOST_TOLD = 8  # predictions


def progress(part: str) -> "Progress":
    """Which exercises of a part are solved, and how close its predictions were, in one line.

    part    "03b", for example: as the notebook's name begins
    Raises  LaunchError if there is no such part
    """
    parts = {p.name.split("_")[0]: p for p in sorted((COURSE / "notebooks").glob("*.ipynb"))}
    need(part in list(parts), f"there is no part {brief(part)}; there are: {', '.join(parts)}")
    numbers = list(dict.fromkeys(CHECK.findall(parts[part].read_text())))
    return Progress(part, numbers, solved_among(numbers), distances())


def distances() -> list[float | None]:
    """How far each prediction was from what was measured; None of one that was not made."""
    guesses = [(prediction.value, measured) for prediction, measured in COMPARED.values()]
    return [None if guess is None else distance(guess, measured) for guess, measured in guesses]


def distance(guess, measured) -> float:
    """As a share of what was measured."""
    if guess == measured:
        return 0.0
    return abs(guess - measured) / abs(measured) if measured else float("inf")


class Progress:
    """The exercises of a part, those that are solved, and the distances of predictions."""

    def __init__(self, part, numbers, solved, distances):
        self.part, self.numbers, self.solved = part, numbers, solved
        self.distances = distances

    def __repr__(self):
        return " · ".join([f"Part {self.part}", *self.of_exercises(), *self.of_predictions()])

    def of_exercises(self) -> list[str]:
        left = [number for number in self.numbers if number not in self.solved]
        if not self.numbers:
            return []
        if not left:
            return [f"all {counted(len(self.numbers), 'exercise')} passed"]
        solved = [f"passed: {', '.join(self.solved)}"] * bool(self.solved)
        return [*solved, f"still to do: {', '.join(left)}"]

    def of_predictions(self) -> list[str]:
        made = [d for d in self.distances if d is not None]
        if not self.distances:
            return []
        if not made:
            return [f"none of {counted(len(self.distances), 'prediction')} made"]
        off = ", ".join(in_percent(d) for d in made[:MOST_TOLD])
        return [f"{len(made)} of {counted(len(self.distances), 'prediction')} made, off by {off}"]

    def _repr_html_(self):
        _, color = BADGES[self.solved == self.numbers or None]
        frame = f"border-left:4px solid {color};padding:1px 0 1px 12px"
        return f'<div style="{frame}">{escape(repr(self))}</div>'


def in_percent(share) -> str:
    return f"{100 * share:.0f} %" if share < 10 else "more than ten times"

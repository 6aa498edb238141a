"""`progress`: the progress in a part, in one line, or in the whole course."""

from html import escape

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.units import brief, format_count

from ..outline import notebooks, outline, part_of
from ..predictions import COMPARED
from ..verdicts import BADGES, render_details
from .learner_state import days_of, filter_solved
from .passport import Passport

MOST_TOLD = 8  # predictions
ALL = "all"


def progress(part: str = ALL) -> "Progress | Passport":
    """Show which exercises of a part are solved, and how close its predictions were, in one line.

    Without a part, show what is solved of the whole course, how long the rest takes, what is next,
    and your passport, with a stamp for each part whose exercises have all passed.

    part    "03c", for example, the beginning of the notebook's name; "all" is the course
    Raises  LaunchError if there is no such part
    """
    if isinstance(part, str) and part == ALL:
        parts = outline()
        numbers = [number for one in parts for number in one.exercises]
        return Passport(parts, days_of(numbers))
    found = notebooks()
    need(part in list(found), f"there is no part {brief(part)}; there are: {', '.join(found)}")
    exercises = part_of(part, found[part]).exercises
    numbers = sorted(exercises, key=lambda number: tuple(map(int, number.split("."))))
    return Progress(part, numbers, filter_solved(numbers), list(COMPARED.values()))


class Progress:
    """The exercises of a part, those that are solved, and the `PredictionResult`s so far."""

    def __init__(self, part, numbers, solved, compared):
        self.part, self.numbers, self.solved = part, numbers, solved
        self.compared = compared

    def __repr__(self):
        return " · ".join(
            [f"Part {self.part}", *self.summarise_exercises(), *self.summarise_predictions()]
        )

    def summarise_exercises(self) -> list[str]:
        left = [number for number in self.numbers if number not in self.solved]
        if not self.numbers:
            return []
        if not left:
            return [f"all {format_count(len(self.numbers), 'exercise')} passed"]
        solved = [f"passed: {', '.join(self.solved)}"] * bool(self.solved)
        return [*solved, f"still to do: {', '.join(left)}"]

    def summarise_predictions(self) -> list[str]:
        if not self.compared:
            return []
        made = [each.distance() for each in self.compared if each.guess is not None]
        changed = sum(each.was_changed() for each in self.compared)
        number = format_count(len(self.compared), "prediction")
        off = ", ".join(format_percent(distance) for distance in made[:MOST_TOLD])
        told = f"{len(made)} of {number} made, off by {off}" if made else f"none of {number} made"
        return [told, *[f"{changed} typed after the measurement"] * bool(changed)]

    def _repr_html_(self):
        _, color = BADGES[self.solved == self.numbers or None]
        frame = f"border-left:4px solid {color};padding:1px 0 1px 12px"
        made = [one for one in self.compared if one.guess is not None]
        each = "".join(f"<div>{escape(describe_prediction(one))}</div>" for one in made)
        more = render_details("Each prediction", each) if each else ""
        return f'<div style="{frame}">{escape(repr(self))}{more}</div>'


def describe_prediction(compared) -> str:
    """Describe a prediction, and how far it was from the measured value."""
    question, unit = compared.prediction.question, compared.prediction.unit
    numbers = f"{compared.guess:.4g} {unit} predicted, {compared.measured:.4g} {unit} measured"
    return f"{question}: {numbers}: off by {format_percent(compared.distance())}"


def format_percent(share) -> str:
    return f"{100 * share:.0f} %" if share < 10 else "more than ten times"

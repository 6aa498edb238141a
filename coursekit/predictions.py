"""`predict`: a question before a run, then a picture of prediction, theory and measurement."""

import re
import time
from typing import NamedTuple

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.screen import someone_watches
from pedagogy_lib.basics.units import brief, four_digits
from pedagogy_lib.pictures.style import (
    BEHIND,
    COLORS,
    EDGE,
    INK,
    Picture,
    new_figure,
    use_course_style,
)

from .progress.learner_state import StateFile

HOW = ("measured", "counted", "simulated")
MOST = 1e100  # more than anybody counts; near the largest float, nothing can be drawn
FAR = 10  # times too high: the prediction's bar is cut off there
GUESSES = StateFile("predictions")  # {question and unit: the number}
COMPARED: dict[str, "PredictionResult"] = {}  # in this kernel, by question and unit


def predict(question: str, unit: str) -> "Prediction":
    """Ask the learner for a number, and go on at once: nothing waits for the answer.

    Where nobody can answer (tests, reports), only the question is shown.
    Returns  a `Prediction`: its `.value` is the number, or None as long as there is none, and
             `.compare(theory, measured)` draws it next to these two, in the same unit
    Raises   LaunchError if the question or the unit is not a text
    """
    for name, given in {"question": question, "unit": unit}.items():
        need(isinstance(given, str), f"predict() takes a {name} in words, not {brief(given)}")
    prediction = Prediction(question, unit)
    prediction.ask()
    return prediction


class Prediction:
    """A question, its unit, and the learner's number (None as long as there is none)."""

    def __init__(self, question, unit):
        self.question, self.unit = question, unit
        self.comparisons: list[Comparison] = []  # on the screen: drawn again for a new number

    @property
    def value(self) -> float | None:
        # An answer stored next to the notebook must not show up in tests and reports.
        kept = GUESSES.read().get(self.key) if someone_watches() else None
        return float(kept) if is_number(kept) and is_prediction(kept) else None

    @value.setter
    def value(self, number: float | None):
        GUESSES.put(self.key, None if number is None else float(number))

    @property
    def key(self) -> str:
        return f"{self.question} [{self.unit}]"

    def ask(self):
        if someone_watches():
            from IPython.display import display

            display(self.box())
        else:
            print(f"Predict: {self.question} ({self.unit})")

    def box(self):
        """Return the question with a field to answer it in."""
        from pedagogy_lib.widgets.question import Question  # in a rank there may be no ipywidgets

        number = self.value
        text, reply = ("", "") if number is None else (f"{number:g}", "noted")
        return Question(self.question, self.unit, text, reply, self.answer)

    def answer(self, text: str, typed_at: float | None = None) -> tuple[bool, str]:
        """Store what was typed instead of the former number; return whether it is one, and a reply.

        typed_at  the browser's time in seconds since 1970; None is now. An answer that is typed
                  while a cell runs arrives when it has ended, perhaps after the measurement
        """
        number = read_number(text, self.unit)
        self.value = number
        compared = COMPARED.get(self.key)
        if compared and typed_at is not None and typed_at < compared.at:
            COMPARED[self.key] = compared._replace(guess=number)
        for comparison in self.comparisons:
            comparison.draw_again()
        if number is not None:
            return True, f"noted: {number:g} {self.unit}"
        if not text.strip():
            return True, "no prediction"
        numbers = "a number from 0 on, such as 4, 0.5, 3/2 or 2e6"
        return False, f'"{text.strip()}" is not noted: write {numbers}, in {self.unit}'

    def compare(self, theory: float, measured: float, kind="other", wire="measured") -> Picture:
        """Return prediction, theory and measurement as one picture, all in the question's unit.

        On the screen it is drawn again when another number is typed into the question.

        kind    the quantity, for its colour: "communication", "parameters", …
        wire    how `measured` was found: "measured", "counted" (a block's `wire`), or "simulated"
        Raises  LaunchError if these are not numbers, or the kind or the wire does not exist
        """
        need_numbers(theory=theory, measured=measured)
        need(kind in list(COLORS), f"kind is one of {', '.join(COLORS)}, not {brief(kind)}")
        need(wire in HOW, f"wire is one of {', '.join(HOW)}, not {brief(wire)}")

        def picture():
            numbers = self.value, float(theory), float(measured)
            return draw(self.question, self.unit, *numbers, COLORS[kind], wire)

        COMPARED[self.key] = PredictionResult(self, self.value, float(measured), time.time())
        return Comparison(self, picture) if someone_watches() else picture()


class PredictionResult(NamedTuple):
    """A prediction that was compared, its number at that moment, the measurement, and the time."""

    prediction: Prediction
    guess: float | None
    measured: float
    at: float

    def was_changed(self) -> bool:
        """Return whether the learner gave another number after the measurement."""
        return self.prediction.value not in (self.guess, None)

    def distance(self) -> float | None:
        """Return the error as a share of the measured value; None if nothing was predicted."""
        if self.guess is None:
            return None
        if self.guess == self.measured:
            return 0.0
        off = abs(self.guess - self.measured)
        return off / abs(self.measured) if self.measured else float("inf")


class Comparison(Picture):
    """The picture of a comparison, on a screen where the learner may still change the number."""

    def __init__(self, prediction, picture):
        drawn = picture()
        super().__init__(drawn.figure, drawn.alt)
        self.prediction, self.picture, self.on_screen = prediction, picture, None

    def _ipython_display_(self):
        from IPython.display import display

        shown = Picture(self.figure, self.alt)
        self.on_screen = display(shown, display_id=True)
        self.prediction.comparisons = [self]  # that of an earlier run of its cell is gone

    def draw_again(self):
        if self.on_screen is not None:
            self.on_screen.update(self.picture())


def need_numbers(**given):
    """Raise WrongInput unless these convert to floats, as a tensor's single element does."""
    for name, number in given.items():
        need(is_number(number), f"compare() takes two numbers, but {name} is {brief(number)}")


def is_number(value) -> bool:
    try:
        return not isinstance(value, str) and abs(float(value)) <= MOST
    except (TypeError, ValueError, ArithmeticError, RuntimeError):  # the last: of several elements
        return False


def read_number(text: str, unit: str) -> float | None:
    """Return what was typed, with or without its unit; None if it is no number from 0 on."""
    text = re.sub(re.escape(unit) + "$", "", text.strip(), flags=re.IGNORECASE).strip()
    if re.fullmatch(r"\d{1,3}(,\d{3})+", text):
        text = text.replace(",", "")  # 1,000,000
    try:
        over, *under = [float(part) for part in text.replace(",", ".").split("/", 1)]
        number = over / under[0] if under else over
    except (ValueError, ArithmeticError):
        return None
    return number if is_prediction(number) else None


def is_prediction(number) -> bool:
    return 0 <= number <= MOST


@use_course_style
def draw(question, unit, guess, theory, measured, color, wire="measured") -> Picture:
    """Draw a prediction next to theory and measurement, one row each; all are in `unit`."""
    figure, axes = new_figure(7.5, 1.9)
    rows = [(wire, measured), ("theory", theory), ("your prediction", guess)]
    shown = [(name, number) for name, number in rows if number is not None]
    numbers, most = [n for _, n in shown], FAR * max(theory, measured)
    highest = 1.2 * (min(max(numbers), most) if most > 0 else max(numbers)) or 1
    for row, (name, number) in enumerate(shown):
        if name == wire:
            edge = EDGE if color == COLORS["idle"] else None  # too light to be seen by itself
            axes.barh(row, number, 0.62, color=color, edgecolor=edge)
        else:
            style = "-" if name == "theory" else "--"
            axes.barh(row, number, 0.62, fill=False, edgecolor=INK, linewidth=1.3, linestyle=style)
        # A bar that goes on beyond the picture has its number inside.
        told, end, toward = f"{four_digits(number)} {unit}", (max(number, 0), row), "left"
        if number > highest:
            told, end, toward = f"{told} →", (highest, row), "right"
        axes.annotate(told, end, (6 if toward == "left" else -6, 0), ha=toward, va="center",
                      textcoords="offset points", color=INK, fontsize=9, bbox=BEHIND)  # fmt: skip
    axes.set_yticks(range(len(shown)), [name for name, _ in shown])
    axes.set_xlim(min(0, *numbers), highest)
    if all(number == int(number) for number in numbers):
        axes.xaxis.get_major_locator().set_params(integer=True)  # counts get no ticks at fractions
    axes.set_xlabel(unit)
    axes.set_title(question)
    said = f"predicted {four_digits(guess)} {unit}" if guess is not None else "no prediction"
    found = f"theory {four_digits(theory)} {unit}; {wire} {four_digits(measured)} {unit}"
    return Picture(figure, f"{question} {said}; {found}")

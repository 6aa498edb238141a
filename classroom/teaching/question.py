"""An exam question: its text with numbers that vary, its answer, and a second way to the answer."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

LEVELS = {1: "recall", 2: "apply", 3: "think"}


@dataclass(frozen=True, eq=False)
class Question:
    """An exam question.

    number  chapter and a running number: "2.3" is the third one of chapter 02
    part    of the course, that teaches what is asked: "02c"
    level   1: a definition or one step; 2: a formula to apply; 3: several steps, or an argument
    text    with {names} of `given`; `answer` and `why` also have {names} of what `solve` returns
    given   {name: the numbers to choose from}; the first ones make the standard variant
    solve   takes a variant by name, and returns {name: number}: the written answer's way
    again   the same numbers another way: counted, simulated, or computed by torch
    stated  the standard variant's numbers, as worked out on paper
    """

    number: str
    part: str
    level: int
    minutes: int
    text: str
    answer: str
    why: str
    given: dict[str, tuple] = field(default_factory=dict)
    solve: Callable[..., dict] | None = None
    again: Callable[..., dict] | None = None
    stated: dict[str, float] = field(default_factory=dict)

    @property
    def chapter(self) -> str:
        return self.part[:2]

    def variants(self) -> Iterator[dict]:
        """Yield all variants, the standard one first."""
        for numbers in product(*self.given.values()):
            yield dict(zip(self.given, numbers))

    def draw_variant(self, chance: random.Random) -> dict:
        return {name: chance.choice(numbers) for name, numbers in self.given.items()}

    def build_variant(self, variant=None) -> "QuestionVariant":
        """Return the question with a variant's numbers, by default the standard variant's."""
        variant = next(self.variants()) if variant is None else variant
        numbers = variant | (self.solve(**variant) if self.solve else {})
        return QuestionVariant(
            self,
            self.text.format(**variant),
            self.answer.format(**numbers),
            self.why.format(**numbers),
        )


@dataclass(frozen=True)
class QuestionVariant:
    """A question with numbers filled in."""

    question: Question
    text: str
    answer: str
    why: str

"""The course's chapters and parts, in order, as README's table and the notebooks tell them."""

import re
from dataclasses import dataclass
from functools import cache

from classroom.teaching.parts import Part, parts
from pedagogy_lib.basics.errors import need
from pedagogy_lib.course.build import ROOT, sources

from .reading import read

QUESTION = re.compile(r"\*\*(.+?\?)\*\*", re.DOTALL)


@dataclass(frozen=True)
class Chapter:
    """number  "02";  title  "Collectives";  parts  in their order"""

    number: str
    title: str
    parts: tuple[Part, ...]

    @property
    def read(self) -> int:
        return sum(part.read for part in self.parts)

    @property
    def practise(self) -> int:
        return sum(part.practise for part in self.parts)

    @property
    def exercises(self) -> int:
        return sum(len(part.checked) for part in self.parts)


@cache
def chapters() -> tuple[Chapter, ...]:
    """Raises  WrongInput for a part that README's table does not have."""
    known = {part.stem for part in parts().values()}
    left_out = [path.stem for path in sources() if path.stem not in known]
    need(not left_out, f"README's table of the chapters has no line for {', '.join(left_out)}")
    numbers = dict.fromkeys(part.chapter for part in parts().values())
    return tuple(chapter(number) for number in numbers)


def chapter(number: str) -> Chapter:
    its = tuple(part for part in parts().values() if part.chapter == number)
    return Chapter(number, title_of(its[0]), its)


def title_of(first: Part) -> str:
    """Of a chapter: the name of its first file, or that part's title if it is the same."""
    words = first.stem.partition("_")[2].replace("_", " ")
    return first.title if first.title.lower() == words else words.capitalize()


@cache
def question_of(stem: str) -> str:
    """What a part asks, in the first bold words of its notebook."""
    first = read(ROOT / "notebooks" / f"{stem}.ipynb")[0].source
    found = QUESTION.search(first)
    return " ".join(found[1].split()) if found else ""

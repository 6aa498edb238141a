"""What an exercise is, and what is raised about a wrong answer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    name     of the function to write
    examine  takes the answer, yields a line for each case that is right, and raises `Wrong` for the
             first that is not. It may yield a `Picture`, too
    hints    in steps, from a nudge to nearly the answer
    lab      the lab that the function is in; None if it is in a cell of the chapter
    needs    names of exercises in labs that it is built on: if an answer is wrong, these are looked
             at first
    slow     which misconception it is if an answer runs on and on, where that is no endless loop
    """

    name: str
    examine: Callable[[Callable], Iterator[str]]
    hints: tuple[str, ...]
    lab: str | None = None
    needs: tuple[str, ...] = ()
    slow: str = ""
    number: str = ""  # by its place in chapter.toml


class Wrong(Exception):
    """An answer is wrong.

    case  in which it was found
    what  is wrong: where, what was expected, what came
    why   which misconception that looks like; may be empty
    """

    def __init__(self, case, what, why=""):
        super().__init__(case, what, why)
        self.case, self.what, self.why = case, what, why


class Rejection(Exception):
    """A rank cannot go on with an answer: what is wrong, and which misconception that is."""

    def __init__(self, what, why):
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self):
        return self.what

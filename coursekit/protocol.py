"""The protocol of an exercise, and the errors about a wrong answer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    name     the name of the function to write
    examine  takes the answer, yields a line for each right case, and raises `Wrong` at the first
             wrong one. It may yield a `Picture`, too
    hints    the hints, from a nudge to nearly the answer
    lab      the lab that the function is in; None if it is in a cell of the chapter
    needs    names of exercises in labs that it is built on: if an answer is wrong, these are
             checked first
    slow     the misconception of an answer that runs on and on, where that is no endless loop
    """

    name: str
    examine: Callable[[Callable], Iterator[str]]
    hints: tuple[str, ...]
    lab: str | None = None
    needs: tuple[str, ...] = ()
    slow: str = ""
    number: str = ""  # from its place in chapter.toml


class Wrong(Exception):
    """An error about a wrong answer.

    case  the case in which it was found
    what  the error: where it is, the expected value, and the answer's
    why   the misconception that this looks like; may be empty
    """

    def __init__(self, case, what, why=""):
        super().__init__(case, what, why)
        self.case, self.what, self.why = case, what, why


class Rejection(Exception):
    """An error of a rank that cannot go on with an answer: what is wrong, and the misconception."""

    def __init__(self, what, why):
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self):
        return self.what

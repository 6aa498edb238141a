"""The progress in the whole course: what has passed and what is left, in numbers and as text."""

import os
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pedagogy_lib.basics.folders import COURSE
from pedagogy_lib.basics.tables import Table
from pedagogy_lib.basics.units import format_count

from ..copies.working_copies import WORK
from ..outline import NotebookPart

IN_STEPS_OF, MANY = 5, 600  # minutes
HOW_COUNTED = (
    "A part gets its stamp when the last check of each of its exercises has passed; "
    "one without exercises has none. The time left is that for what has not passed, and to read. "
    "Nobody records what you read. So a part counts as read when one of its exercises has passed, "
    "and a part without exercises when all exercises of its chapter have."
)


class Stamp(NamedTuple):
    """A stamp of a part whose exercises have all passed; `day` is the last recorded one, or ""."""

    part: NotebookPart
    day: str


class CourseProgress:
    """The progress in all parts that exist here; it shows itself as text.

    days  {number of an exercise that has passed: day}
    """

    def __init__(self, parts: list[NotebookPart], days: dict[str, str]):
        self.parts, self.days = parts, days
        self.exercises = {number: part for part in parts for number in part.exercises}
        self.left = [number for number in self.exercises if number not in days]
        self.chapters = [list(of_one) for _, of_one in groupby(parts, lambda part: part.chapter)]

    def __repr__(self):
        heads = ["chapter", "passed", "left", "stamps"]
        rows = [self.row_of(chapter) for chapter in self.chapters]
        told = [self.headline(), "", repr(Table(heads, rows)), "", self.what_is_next()]
        return "\n".join(told).rstrip()

    def headline(self) -> str:
        """Return how many exercises are passed, and how long the others take."""
        if not self.exercises:
            return "there are no exercises here"
        if not self.left:
            day = format_day(max(self.days[number] for number in self.exercises))
            return (
                f"all {format_count(len(self.exercises), 'exercise')} passed"
                + f" by {day}" * bool(day)
            )
        minutes = sum(map(self.minutes_left, self.chapters))
        passed = len(self.exercises) - len(self.left)
        of_all = f"{passed} of {format_count(len(self.exercises), 'exercise')} passed"
        return f"{of_all}, about {format_duration(minutes)} left"

    def row_of(self, chapter: list[NotebookPart]) -> list[str]:
        """Return a chapter's cells: its name, exercises passed, time left, stamps."""
        numbers = [number for part in chapter for number in part.exercises]
        passed = sum(number in self.days for number in numbers)
        stamps = [stamp.part.name for stamp in self.stamps() if stamp.part in chapter]
        of_all = f"{passed} of {len(numbers)}" if numbers else "no exercises"
        if numbers and passed == len(numbers):
            return [name_of(chapter), of_all, "done", "all"]
        return [
            name_of(chapter),
            of_all,
            format_duration(self.minutes_left(chapter)),
            " ".join(stamps),
        ]

    def what_is_next(self) -> str:
        if not self.left:
            return ""
        number = self.left[0]
        part = self.exercises[number]
        return f"Next: {title_of(number, part)}, in {part}\n      {address_of(part)}"

    def stamps(self) -> list[Stamp]:
        return [
            Stamp(part, max(self.days[number] for number in part.exercises))
            for part in self.parts
            if part.exercises and part.exercises.keys() <= self.days.keys()
        ]

    def minutes_left(self, chapter: list[NotebookPart]) -> float:
        """Return the minutes for exercises that have not passed and for parts still to read."""
        return sum(
            self.share_left([part]) * part.writing
            + (not self.is_read(part, chapter)) * part.reading
            for part in chapter
        )

    def is_read(self, part: NotebookPart, chapter: list[NotebookPart]) -> bool:
        if part.exercises:
            return self.share_left([part]) < 1
        return self.share_left(chapter) == 0 and any(other.exercises for other in chapter)

    def share_left(self, parts: list[NotebookPart]) -> float:
        numbers = [number for part in parts for number in part.exercises]
        return sum(number not in self.days for number in numbers) / max(1, len(numbers))


def name_of(chapter: list[NotebookPart]) -> str:
    """Return a chapter's name: that of its first part or, in a handout, of the first one there."""
    return f"{chapter[0].chapter} · {chapter[0].title}"


def title_of(number: str, part: NotebookPart) -> str:
    return f"exercise {number}" + f" · {part.exercises[number]}" * bool(part.exercises[number])


def format_duration(minutes: float) -> str:
    """Format minutes as `35 min`, `1 h 35 min` or `67 h`."""
    if minutes >= MANY:
        return f"{minutes / 60:.0f} h"
    hours, rest = divmod(max(1, round(minutes / IN_STEPS_OF)) * IN_STEPS_OF, 60)
    return " ".join([f"{hours} h"] * bool(hours) + [f"{rest} min"] * bool(rest))


def format_day(day: str) -> str:
    """Format `2026-11-28` as `28 Nov 2026`."""
    return f"{date.fromisoformat(day):%d %b %Y}".lstrip("0") if day else ""


def address_of(part: NotebookPart) -> str:
    """Return the relative path of a part's notebook: the learner's own copy if there is one."""
    copies = [Path.cwd() / part.path.name, COURSE / WORK / part.path.name]
    found = next((path for path in copies if path.exists()), part.path)
    return Path(os.path.relpath(found)).as_posix()

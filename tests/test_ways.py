"""The ways through the course, in README and in chapter 00: their parts, and their minutes."""

import re

import pytest
from each import for_each

from classroom.teaching.parts import needed_by, parts
from pedagogy_lib.course import build

LINK = re.compile(r"\[(\w+)\](?:\((?:solutions/)?(\w+)\.ipynb\))?")
ROW = re.compile(r"^\| ([^|\[\]]+) \| ([^|]*\[[^|]+) \| (\d+) \|$", re.MULTILINE)
PATHS = ("An hour", "A day", "Everything")
MOST_PARTS, LEAST_QUESTIONS = 4, 15
HOUR = 60
ON_LESS = {"10"}  # of a day: a look ahead, for which other parts come first


def ways_in(text: str) -> str:
    """From the heading of the map to the end of the paths."""
    return text.partition("**What to read for which question.**")[2]


def readme() -> str:
    return ways_in((build.ROOT / "README.md").read_text()).partition("\n## ")[0]


def chapter() -> str:
    """The same of chapter 00; links are defined below its texts."""
    cells = build.to_notebook(build.sources()[0].read_text(), "00").cells
    told = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return ways_in(told).partition("**Parts.**")[0]


def rows_of(text) -> dict[str, tuple[str, int]]:
    """{question: (what to read, minutes)}"""
    return {question: (read, int(minutes)) for question, read, minutes in ROW.findall(text)}


def path_of(text, name: str) -> str:
    """What is said of a path, on one line."""
    return " ".join(
        re.search(rf"^\* \*\*{name}\*\*(.*?)(?=\n\*|\n\n)", text, re.M | re.S)[1].split()
    )


def names_in(text) -> list[str]:
    return [name for name, _ in LINK.findall(text)]


def minutes_of(names, exercises=()) -> int:
    return sum(parts()[n].read for n in names) + sum(parts()[n].practise for n in exercises)


def in_hours(minutes) -> int:
    return round(minutes / 60)


@for_each("question", rows_of(readme()))
def test_a_question_leads_to_a_few_parts_and_says_how_long_they_take(question):
    read, minutes = rows_of(readme())[question]
    names = names_in(read)
    assert 1 <= len(names) <= MOST_PARTS and len(set(names)) == len(names)
    assert set(names) <= set(parts())
    assert minutes == minutes_of(names)


def test_there_are_questions_enough_and_every_row_is_one():
    rows = [line for line in readme().splitlines() if line.startswith("| ") and "[" in line]
    assert len(rows) == len(rows_of(readme())) >= LEAST_QUESTIONS


def test_links_lead_to_the_parts_that_they_name():
    linked = LINK.findall(readme())
    assert len(linked) > LEAST_QUESTIONS
    assert all(parts()[name].stem == stem for name, stem in linked)
    defined = re.findall(r"^\[(\w+)\]: (\w+)\.ipynb$", chapter(), re.MULTILINE)
    assert all(parts()[name].stem == stem for name, stem in defined)
    assert {name for name, _ in defined} == set(names_in(chapter()))


@pytest.mark.parametrize("name", PATHS)
def test_readme_and_chapter_00_tell_the_same_paths(name):
    told = [LINK.sub(r"[\1]", path_of(text, name)) for text in (readme(), chapter())]
    assert told[0] == told[1]


def test_readme_and_chapter_00_answer_the_same_questions():
    plain = [{question: (LINK.sub(r"[\1]", read), minutes)
              for question, (read, minutes) in rows_of(text).items()}
             for text in (readme(), chapter())]  # fmt: skip
    assert plain[0] == plain[1]


def test_an_hour_is_one():
    told = path_of(readme(), "An hour")
    names = names_in(told)
    assert f"{minutes_of(names)} minutes" in told
    assert minutes_of(names) == pytest.approx(HOUR, rel=0.1)
    assert all(needed_by(name) <= set(names) for name in names)


def test_a_day_is_one():
    told = path_of(readme(), "A day")
    which, _, exercises = told.partition("The exercises of")
    names, written = names_in(which), names_in(exercises)
    assert names == sorted(names, key=list(parts()).index) and set(written) <= set(names)
    assert f"{minutes_of(names)} minutes to read and run" in told
    assert f"take {minutes_of([], written)} more" in told
    assert told.startswith(f", {in_hours(minutes_of(names, written))} hours:")
    assert in_hours(minutes_of(names, written)) == 8
    assert all(needed_by(name) <= set(names) for name in names if name not in ON_LESS)


def test_everything_is_all_parts():
    hours, more = in_hours(minutes_of(parts())), in_hours(minutes_of([], parts()))
    told = f"{hours} hours to read and run, and {more} more for all exercises"
    assert told in path_of(readme(), "Everything")


def test_both_say_where_to_see_what_is_solved():
    for text in (readme(), chapter()):
        assert "`progress()`" in text

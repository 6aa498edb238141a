"""chapter.toml and course.toml: what they refuse, and the texts that are made from them."""

import re

import pytest
from each import repeat_for_each

from classroom.teaching.prerequisites import find_required_parts
from coursekit import chapters
from coursekit.building import build
from coursekit.building.chapter_texts import MARKERS, chapters_page, expand_markers, round_to_hours
from coursekit.chapters import NAMED, course, exercise_folders, parts
from pedagogy_lib.basics.errors import WrongInput

MOST_PARTS, LEAST_QUESTIONS = 4, 15
PATHS = {entry["name"]: entry for entry in course()["paths"]}
ON_LESS = {"10"}  # in a day: a look ahead, which other parts precede
LINK = re.compile(r"\]\(solutions/(\w+)\.ipynb\)")
CHAPTER = """title = "Add"

[[parts]]
stem = "90_add"
title = "Add"
measure = "sums"
reading = 5
needs = "nothing"
exercises = ["add"]
"""


@repeat_for_each("entry", course()["questions"], lambda entry: entry["question"])
def test_a_question_leads_to_a_few_parts(entry):
    names = NAMED.findall(entry["read"])
    assert 1 <= len(names) <= MOST_PARTS and len(set(names)) == len(names)
    assert set(names) <= set(parts())


def test_there_are_enough_questions():
    assert len(course()["questions"]) >= LEAST_QUESTIONS


def minutes_of(entry) -> int:
    reading = sum(parts()[name].reading for name in entry["parts"])
    return reading + sum(parts()[name].writing for name in entry.get("exercises_of", ()))


def test_an_hour_is_one():
    assert minutes_of(PATHS["An hour"]) == pytest.approx(60, rel=0.1)


def test_a_day_is_one():
    assert round_to_hours(minutes_of(PATHS["A day"])) == 8
    assert set(PATHS["A day"]["exercises_of"]) <= set(PATHS["A day"]["parts"])


@repeat_for_each("name", ["An hour", "A day"])
def test_a_path_has_its_parts_in_order_with_what_they_need(name):
    names = PATHS[name]["parts"]
    assert names == sorted(names, key=list(parts()).index)
    assert all(find_required_parts(part) <= set(names) for part in names if part not in ON_LESS)


def test_everything_is_said_with_its_hours():
    reading, writing = (sum(getattr(part, kind) for part in parts().values())
                        for kind in ("reading", "writing"))  # fmt: skip
    said = f"{round_to_hours(reading)} hours to read and run, and {round_to_hours(writing)} more"
    assert said in " ".join(chapters_page().split())


def test_the_page_of_the_chapters_links_every_part():
    assert set(LINK.findall(chapters_page())) == {part.stem for part in parts().values()}


def test_what_a_part_needs_comes_before_it():
    order = list(parts())
    for name, part in parts().items():
        assert all(order.index(need) < order.index(name) for need in part.prerequisites), name


def test_numbers_follow_from_the_order_of_the_exercises():
    numbers = [number for part in parts().values() for number in part.numbers]
    assert numbers == list(exercise_folders())


def test_an_unknown_marker_is_refused():
    with pytest.raises(WrongInput, match=r"06_zero: \{\{minutes\}\} is no marker; there are title"):
        expand_markers("It takes {{minutes}}.", "06_zero")


def test_no_part_follows_the_last_one():
    with pytest.raises(WrongInput, match="11b_exam: no part follows the last one"):
        expand_markers("{{next}}", "11b_exam")


def test_every_marker_is_used_and_none_is_left():
    text = "".join(source.read_text() for source in build.sources())
    assert [name for name in MARKERS if f"{{{{{name}}}}}" not in text] == []
    built = build.build_texts().items()
    assert [path.name for path, text in built if "xercise {{" in text or 'k("{{' in text] == []
    assert [path.name for path, text in built if "{{" in text and path.suffix != ".py"] == []


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """A course of one chapter: a function that writes its chapter.toml, and reads it."""
    monkeypatch.setattr(chapters, "FOLDER", tmp_path / "chapters")
    folder = chapters.FOLDER / "ch90_add"
    folder.mkdir(parents=True)
    (folder / "90_add.py").write_text("# %%\n")
    (chapters.FOLDER / "course.toml").write_text("")
    (folder / "exercises" / "add").mkdir(parents=True)
    (folder / "exercises" / "add" / "check.py").write_text("")

    def read(text):
        (folder / "chapter.toml").write_text(text)
        return chapters.read_chapter(folder / "chapter.toml")

    return read


def test_a_folder_without_chapter_toml_is_told(chapter):
    with pytest.raises(WrongInput, match=r"chapters/ch90_add/chapter\.toml is missing"):
        chapters.chapters.__wrapped__()


def test_a_chapter_is_read(chapter):
    found = chapter(CHAPTER)
    assert (found.number, found.title, found.exercises) == ("90", "Add", ("add",))
    assert found.parts[0].name == "90" and found.reading == 5


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("reading = 5\n", ""), "part 90_add has no reading"),
        (("reading", "minutes"), "part 90_add: minutes means nothing; there are stem, title,"),
        (('"90_add"', '"90_sub"'), "lists the parts 90_sub; their sources, in order, are 90_add"),
        (('["add"]', '["add", "add"]'), "lists the exercise add twice"),
        (
            ('["add"]', '["add", "sub"]'),
            "lists the exercise sub, and there is no check.py in exercises/sub",
        ),
        (('["add"]', "[]"), "does not list the exercise add"),
        (('title = "Add"\n\n', ""), "has no title"),
        (('"nothing"', "nothing"), "cannot be read: "),
    ],
)
def test_a_mistake_gets_one_sentence(chapter, change, sentence):
    with pytest.raises(WrongInput, match=re.escape("ch90_add/chapter.toml")) as caught:
        chapter(CHAPTER.replace(*change, 1))
    assert sentence in str(caught.value)

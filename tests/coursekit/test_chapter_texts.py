"""chapter.toml and course.toml: what they refuse, and the texts that are made from them."""

import re
import shutil

import pytest
from each import repeat_for_each

from classroom.teaching.prerequisites import find_required_parts
from coursekit import chapters
from coursekit.building import build
from coursekit.building.chapter_texts import (
    MARKERS,
    chapters_page,
    expand_markers,
    need_parts_in_order,
    round_to_hours,
)
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
tried_with = { world_size = 2 }
then_shows = ["3"]
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
    assert not [
        part for part in names if part not in ON_LESS if not find_required_parts(part) <= set(names)
    ]


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


def test_two_chapters_with_an_exercise_of_one_name_are_told(chapter):
    folder = chapter(CHAPTER).folder
    other = shutil.copytree(folder, folder.with_name("ch91_add"))
    (other / "90_add.py").rename(other / "91_add.py")
    toml = other / "chapter.toml"
    toml.write_text(toml.read_text().replace("90_add", "91_add"))
    with pytest.raises(
        WrongInput, match="two chapters list an exercise add; give one another name"
    ):
        chapters.chapters.__wrapped__()


def test_a_chapter_is_read(chapter):
    found = chapter(CHAPTER)
    assert (found.number, found.title, found.exercises) == ("90", "Add", ("add",))
    assert found.parts[0].name == "90" and found.reading == 5


def test_parts_are_listed_in_the_order_of_their_letters(chapter):
    folder = chapter(CHAPTER).folder
    (folder / "90b_sub.py").write_text("# %%\n")
    title, part = CHAPTER.split("\n\n")
    second = part.replace("90_add", "90b_sub").replace('exercises = ["add"]', "")
    chapter("\n\n".join([title, part, second]))
    with pytest.raises(WrongInput, match="has to list its parts in this order: 90_add, 90b_sub"):
        chapter("\n\n".join([title, second, part]))


def test_a_part_that_does_not_exist_is_no_prerequisite(chapter):
    chapter(CHAPTER.replace('"nothing"', '"[89z]"'))
    with pytest.raises(WrongInput, match=r"part 90_add needs \[89z\], which does not exist"):
        chapters.chapters.__wrapped__()


PART = """# %% [markdown]
# ### Exercise {{add}} · A sum

# %% tags=["cover"]
check("{{add}}", add)
"""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("{{add}} ·", "{{sub}} ·"), "with the names sub; chapter.toml lists add"),
        (("Exercise {{add}}", "Exercise"), "with the names none; chapter.toml lists add"),
        (('check("{{add}}"', 'check("{{sub}}"'), "90_add.py checks sub, which no chapter.toml"),
        (("cover", "recover"), "has no cell with the tag `cover`"),
    ],
)
def test_a_part_has_the_exercises_of_chapter_toml_and_a_cover(chapter, change, sentence):
    source = chapter(CHAPTER).folder / "90_add.py"
    for cached in (chapters.chapters, chapters.parts, chapters.exercise_numbers):
        cached.cache_clear()
    try:
        source.write_text(PART)
        need_parts_in_order([source])
        source.write_text(PART.replace(*change, 1))
        with pytest.raises(WrongInput, match=r"90_add\.py") as caught:
            need_parts_in_order([source])
    finally:
        for cached in (chapters.chapters, chapters.parts, chapters.exercise_numbers):
            cached.cache_clear()
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("reading = 5\n", ""), "part 90_add has no reading"),
        (("reading", "minutes"), "part 90_add: minutes means nothing; there are stem, title,"),
        (('"90_add"', '"90_sub"'), "lists the part 90_sub, and there is no source of it"),
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

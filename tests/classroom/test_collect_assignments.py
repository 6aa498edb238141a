"""Folders that hold several assignments of a course: nbgrader's exchange, and its submitted/."""

import pytest
from exercise_names import EX

from classroom.grading import course
from classroom.grading.collect import collect
from pedagogy_lib.basics.errors import WrongInput

TIME = "2026-11-{day} 15:58:23.948203 UTC+Xy_z=="


def notebook_of(number) -> str:
    return f"{course.list_exercises(exercises=[number])[0].part}.ipynb"


@pytest.fixture(params=["exchange", "submitted"])
def put(request, tmp_path):
    """Hand in to an assignment: a notebook, and the same lab, which travels with all of them."""

    def put_one(student, assignment, notebook, lab, day="03"):
        name = f"{student}+{assignment}+{TIME.format(day=day)}"
        if request.param == "submitted":
            name = f"submitted/{student}/{assignment}"
        folder = tmp_path / name
        (folder / "labs").mkdir(parents=True)
        (folder / notebook).write_text("{}")
        (folder / "labs" / "collectives.py").write_bytes(lab)

    return put_one


def test_a_part_asks_for_its_own_exercises():
    numbers = [one.number for one in course.list_exercises(["02b", "6c"])]
    assert numbers == [
        EX.tree_seconds,
        EX.broadcast_tree,
        EX.reduce_tree,
        EX.zero2,
        EX.reduce_and_free,
    ]
    for part, said in (
        ("02z", "no chapter or part 02z"),
        (EX.all_reduce_ring, f"no chapter or part {EX.all_reduce_ring}"),
    ):
        with pytest.raises(WrongInput, match=said):
            course.list_exercises([part])


def test_the_assignment_counts_that_asks_for_the_exercises(tmp_path, put):
    put("ada", "02_collectives", notebook_of(EX.all_reduce_ring), b"two = 1\n", day="03")
    put("ada", "06_zero", notebook_of(EX.flatten_padded), b"six = 1\n", day="20")
    put("bo", "06_zero", notebook_of(EX.flatten_padded), b"six = 1\n")
    told, (ada,) = collect(tmp_path, course.list_exercises(["02"]))
    assert told.endswith(", of 02_collectives (left out: 06_zero)")
    assert ada.files == {
        notebook_of(EX.all_reduce_ring): b"{}",
        "labs/collectives.py": b"two = 1\n",
    }
    assert ada.problems == []
    _, submissions = collect(tmp_path, course.list_exercises(["06"]))
    assert [one.student for one in submissions] == ["ada", "bo"]
    assert submissions[0].files["labs/collectives.py"] == b"six = 1\n"


def test_who_has_renamed_a_notebook_is_in_the_assignment_that_others_tell(tmp_path, put):
    put("ada", "first", "mine.ipynb", b"ada = 1\n")
    put("bo", "first", notebook_of(EX.all_reduce_ring), b"bo = 1\n")
    put("bo", "second", notebook_of(EX.flatten_padded), b"bo = 2\n")
    _, (ada, bo) = collect(tmp_path, course.list_exercises(["02"]))
    assert set(ada.files) == {"mine.ipynb", "labs/collectives.py"}
    assert bo.files["labs/collectives.py"] == b"bo = 1\n"


def test_of_two_that_are_asked_for_both_count(tmp_path, put):
    put("ada", "02_collectives", notebook_of(EX.all_reduce_ring), b"two = 1\n", day="03")
    put("ada", "06_zero", notebook_of(EX.flatten_padded), b"six = 1\n", day="20")
    told, (ada,) = collect(tmp_path, course.list_exercises(["02", "06"]))
    assert told.endswith(", of 02_collectives, 06_zero")
    assert ada.problems == []
    assert ada.files["02_collectives/labs/collectives.py"] == b"two = 1\n"
    assert ada.files["06_zero/labs/collectives.py"] == b"six = 1\n"


def test_none_that_asks_for_them_is_one_sentence_with_all_names(tmp_path, put):
    put("ada", "first", "a.ipynb", b"")
    put("ada", "second", "b.ipynb", b"")
    with pytest.raises(WrongInput, match="there are 2 assignments, first, second, and in none"):
        collect(tmp_path, course.list_exercises(["02"]))


def test_a_single_assignment_is_taken_whatever_is_in_it(tmp_path, put):
    put("ada", "first", "a.ipynb", b"")
    _, (ada,) = collect(tmp_path, course.list_exercises(["02"]))
    assert set(ada.files) == {"a.ipynb", "labs/collectives.py"}


def test_the_newest_try_of_one_assignment_counts_beside_the_other(tmp_path):
    for day, assignment, text in (
        ("03", "two", "new"), ("01", "two", "old"), ("20", "six", "other"),
    ):  # fmt: skip
        folder = tmp_path / f"ada+{assignment}+{TIME.format(day=day)}"
        folder.mkdir()
        (
            folder / notebook_of(EX.flatten_padded if assignment == "six" else EX.all_reduce_ring)
        ).write_text(text)
    _, (ada,) = collect(tmp_path, course.list_exercises(["02"]))
    assert list(ada.files.values()) == [b"new"]
    assert ["01 November 2026" in said for said in ada.problems] == [True]

"""The zip of feedback, as Moodle and Canvas read it."""

import io
import json
import re
import zipfile

import nbformat
import pytest
from test_pages import EXERCISES, answer, student

from classroom.pages import write

PLACES = {
    "Ada Abels": "moodle/Ada Abels_4711_assignsubmission_file_/02_collectives.ipynb",
    "Ben Bauer": "moodle/Ben Bauer_4712_assignsubmission_file",
    "Cem Can": "canvas/cancem_501_9001_02_collectives-1.ipynb",
    "Dan Dee": "canvas/deedan_LATE_502_9002_work.zip",
    "Eva Ek": "canvas/ekeva_503_9003_collectives.py",
    "Fay Fox": "submitted/fay/02/02_collectives.ipynb",
    "Gil Gay": "canvas/gaygil_504_9004_report.pdf",
}


@pytest.fixture
def archive(tmp_path):
    given = answer("wrong", 0.5, why="a mean and `no` sum", facts=[1, 2])
    students = [student(name, given, place=place) for name, place in PLACES.items()]
    write({"title": "Chapter 02", "version": "", "exercises": EXERCISES, "students": students},
          tmp_path)  # fmt: skip
    return zipfile.ZipFile(tmp_path / "feedback.zip")


def moodle_reads(path) -> tuple[int, str] | None:
    """The participant and the file's name, as Moodle's import finds them (importziplib.php)."""
    parts = path.split("/")
    while parts:
        info = parts.pop(0).split("_", 4)
        if len(info) >= 4 and info[1].isdigit() and info[2:4] == ["assignsubmission", "file"]:
            return int(info[1]), "/".join([*info[4:], *parts]).lstrip("/")
    return None


def canvas_reads(path) -> list[str]:
    """The ids of user and attachment, as Canvas finds them (app/models/assignment.rb)."""
    return [part for part in path.split("/")[-1].split("_") if re.fullmatch(r"\d+", part)][:2]


def test_moodle_finds_each_student(archive):
    read = {moodle_reads(name) for name in archive.namelist()} - {None}
    assert read == {(4711, "feedback.html"), (4712, "feedback.html")}
    page = archive.read("Ada Abels_4711_assignsubmission_file_/feedback.html").decode()
    assert "Ada Abels" in page and "Ben Bauer" not in page


def test_canvas_gets_the_names_that_it_gave(archive):
    read = [canvas_reads(name) for name in archive.namelist() if "/" not in name]
    assert read == [["501", "9001"], ["502", "9002"], ["503", "9003"], ["504", "9004"]]
    assert {path.split("/")[1] for path in PLACES.values() if path.startswith("canvas")} == {
        name for name in archive.namelist() if "/" not in name
    }


def test_a_file_for_canvas_is_what_its_name_says(archive):
    notebook = nbformat.reads(archive.read("cancem_501_9001_02_collectives-1.ipynb"), 4)
    nbformat.validate(notebook)
    assert {cell.cell_type for cell in notebook.cells} == {"raw"}
    assert len(notebook.cells) == 1 + len(EXERCISES)
    assert notebook.cells[0].source == "Chapter 02\nCem Can: 0.5 of 3 points"
    for told in ("✗ 4 ranks: rank 0, x[0] is 1", "→ a mean and `no` sum", "1 of 2 cases hold",
                 "Read again: part 02 · Collectives"):  # fmt: skip
        assert told in notebook.cells[1].source
    inner = zipfile.ZipFile(io.BytesIO(archive.read("deedan_LATE_502_9002_work.zip")))
    assert b"Dan Dee" in inner.read("feedback.html")
    program = archive.read("ekeva_503_9003_collectives.py").decode()
    assert compile(program, "collectives.py", "exec").co_consts == (None,)  # only comments
    assert "# Eva Ek: 0.5 of 3 points" in program
    assert archive.read("gaygil_504_9004_report.pdf").startswith(b"<!DOCTYPE html>")


def test_whoever_came_in_another_way_has_a_folder(archive):
    assert b"Fay Fox" in archive.read("Fay-Fox/feedback.html")
    assert len(archive.namelist()) == len(PLACES)


def test_nobody_gets_the_feedback_of_one_who_came_from_the_same_place(tmp_path):
    place = PLACES["Ada Abels"]
    students = [student(name, place=place) for name in ("Ada Abels", "Eve Evil")]
    write({"title": "t", "version": "", "exercises": EXERCISES, "students": students}, tmp_path)
    archive = zipfile.ZipFile(tmp_path / "feedback.zip")
    hers = "Ada Abels_4711_assignsubmission_file_/feedback.html"
    assert sorted(archive.namelist()) == [hers, "Eve-Evil/feedback.html"]
    assert b"Eve Evil" not in archive.read(hers)


def test_the_zip_has_no_date_and_stays_in_its_folder(archive):
    assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert not [name for name in archive.namelist() if name.startswith("/") or ".." in name]
    assert json.dumps(archive.namelist()) == json.dumps(sorted(archive.namelist()))

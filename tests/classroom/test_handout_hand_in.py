"""What a learner hands in: one zip, with what is still unwritten."""

import json
import sys
import zipfile

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from coursekit.copies import submission_zip
from coursekit.copies.submission_zip import hand_in
from pedagogy_lib.__main__ import main
from pedagogy_lib.basics.errors import WrongInput

LAB = '''def written(x):
    """Exercise 2.3."""
    return x


def left(x):
    """Exercise 2.4."""
    ...  # your code here
'''


@pytest.fixture
def course(tmp_path):
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs" / "one.py").write_text(LAB)
    work = tmp_path / "work"
    (work / ".originals").mkdir(parents=True)
    cells = ["def swap(x):\n    ...  # your code here", 'check("2.1", swap)', "%matplotlib inline"]
    nbformat.write(new_notebook(cells=[*map(new_code_cell, cells)]), work / "02_a.ipynb")
    nbformat.write(new_notebook(), work / ".originals" / "02_a.ipynb")
    (work / ".progress.json").write_text('{"2.3": true}')
    return tmp_path


def test_labs_notebooks_and_checks_are_packed(course):
    told = hand_in("Ada Lovelace", course)
    with zipfile.ZipFile(course / "hand-in-Ada-Lovelace.zip") as archive:
        assert sorted(archive.namelist()) == [
            "HANDED_IN.json", "labs/one.py", "work/.progress.json", "work/02_a.ipynb",
        ]  # fmt: skip
        about = json.loads(archive.read("HANDED_IN.json"))
    assert about["student"] == "Ada Lovelace"
    assert about["unwritten"] == {"labs/one.py": ["2.4 left"], "work/02_a.ipynb": ["2.1 swap"]}
    assert told == [
        "hand-in-Ada-Lovelace.zip, handed in by Ada Lovelace:",
        "  1 labs, 1 notebooks, and the results of your checks",
        "  Written:",
        "    labs/one.py: 2.3 written",
        "  Still unwritten:",
        "    labs/one.py: 2.4 left",
        "    1 in other files that you have not begun",
    ]


def test_holes_of_other_parts_can_wait(course):
    (course / "HANDOUT.json").write_text('{"version": "1", "asks": ["2.1", "2.3"]}')
    told = hand_in("Ada", course)
    assert told[-3:] == [
        "  Still unwritten:",
        "    1 in other files that you have not begun",
        "  1 hole of other parts can wait.",
    ]


def test_it_is_written_anew_each_time(course):
    hand_in("Ada", course)
    (course / "labs" / "one.py").write_text(LAB.replace("...  # your code here", "return x"))
    (course / "work" / "02_a.ipynb").unlink()
    assert "  Everything is written." in hand_in("Ada", course)


def test_files_that_cannot_be_read_go_along(course):
    (course / "labs" / "one.py").write_text("def (")
    (course / "work" / "02_a.ipynb").write_text("{no notebook")
    told = hand_in("Ada", course)
    assert any(line.startswith("    labs/one.py: cannot be read") for line in told)
    with zipfile.ZipFile(course / "hand-in-Ada.zip") as archive:
        assert archive.read("work/02_a.ipynb") == b"{no notebook"


def test_without_a_name_it_is_that_of_the_account(course, monkeypatch):
    monkeypatch.setattr(submission_zip.getpass, "getuser", lambda: "ada")
    assert hand_in(None, course)[0].startswith("hand-in-ada.zip")
    monkeypatch.setattr(submission_zip.getpass, "getuser", lambda: "")
    with pytest.raises(WrongInput, match="who hands this in"):
        hand_in(None, course)


def test_the_command_line_refuses_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(submission_zip.hand_in, "__defaults__", (None, tmp_path))
    assert main(["hand-in", "--name", "Ada"]) == 2
    assert "there is nothing to hand in" in capsys.readouterr().err


def test_a_python_without_the_courses_packages_is_told_which_one_to_call(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "coursekit.copies.submission_zip", None)
    with pytest.raises(ModuleNotFoundError):  # the course's own are another matter
        main(["hand-in"])
    monkeypatch.delitem(sys.modules, "coursekit.copies.submission_zip")
    monkeypatch.delitem(sys.modules, "coursekit.copies.notebook_merges", raising=False)
    monkeypatch.setitem(sys.modules, "nbformat", None)
    monkeypatch.delitem(sys.modules, "coursekit.building.build", raising=False)
    assert main(["hand-in"]) == 2
    assert " has no " in (said := capsys.readouterr().err) and ".venv/bin/python" in said

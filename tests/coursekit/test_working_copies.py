"""Learners work on copies: the course's own notebooks stay as they are, and so does their work."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest

from coursekit import jupyter_lab
from coursekit.copies import working_copies
from coursekit.copies.working_copies import renew_copies
from pedagogy_lib import LaunchError
from pedagogy_lib.__main__ import main


@pytest.fixture
def course(tmp_path):
    """A course of one notebook."""
    (tmp_path / "notebooks").mkdir()
    publish(tmp_path, "x = ...")
    return tmp_path


def publish(course, source):
    write(course / "notebooks" / "01_first.ipynb", source)


def write(path, *sources, outputs=()):
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source, id=f"{i}") for i, source in
                      enumerate(sources)]  # fmt: skip
    notebook.cells[0].outputs = list(outputs)
    nbformat.write(notebook, path)


def sources(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def names(course):
    return sorted(path.name for path in (course / "work").glob("*"))


def test_the_first_time_everything_is_copied(course):
    assert renew_copies(course) == []
    assert sources(course / "work" / "01_first.ipynb") == ["x = ..."]
    assert names(course) == [".originals", "01_first.ipynb"]


def test_what_is_copied_stays(course):
    renew_copies(course)
    write(course / "work" / "01_first.ipynb", "x = 1")
    assert renew_copies(course) == []
    assert sources(course / "work" / "01_first.ipynb") == ["x = 1"]


def test_a_new_version_replaces_a_copy_that_was_only_run(course):
    renew_copies(course)
    output = nbformat.v4.new_output("stream", text="3\n")
    write(course / "work" / "01_first.ipynb", "x = ...", outputs=[output])
    publish(course, "x = ...  # new")
    assert renew_copies(course) == []
    assert sources(course / "work" / "01_first.ipynb") == ["x = ...  # new"]
    assert names(course) == [".originals", "01_first.ipynb"]


def test_a_new_version_stands_beside_a_copy_with_work_in_it(course):
    renew_copies(course)
    write(course / "work" / "01_first.ipynb", "x = 1")
    for number, ending in enumerate(["-new", "-new-2"]):
        publish(course, f"x = ...  # {number}")
        (told,) = renew_copies(course)
        assert told.startswith("work/01_first.ipynb stays as you left it; its new version is work/")
        assert told.endswith(f"/01_first{ending}.ipynb")
        assert sources(course / "work" / f"01_first{ending}.ipynb") == [f"x = ...  # {number}"]
        assert renew_copies(course) == []
    assert sources(course / "work" / "01_first.ipynb") == ["x = 1"]


def test_a_cell_that_was_added_or_moved_is_work(course):
    renew_copies(course)
    write(course / "work" / "01_first.ipynb", "x = ...", "my notes")
    publish(course, "x = ...  # new")
    assert len(renew_copies(course)) == 1


SPOILT = {
    "half a notebook": "{half a notebo",
    "no cells": '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": null}',
    "a cell that is none": '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [null]}',
    "an old format": '{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": 1}',
    "a source of numbers": '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": '
    '[{"cell_type": "markdown", "metadata": {}, "source": ["a", 1]}]}',
    "too deep": "[" * 100_000,
    "nothing": "",
}


@pytest.mark.parametrize("content", SPOILT.values(), ids=SPOILT)
def test_a_copy_that_is_no_notebook_any_more_is_kept(course, content):
    renew_copies(course)
    (course / "work" / "01_first.ipynb").write_text(content)
    publish(course, "x = ...  # new")
    assert len(renew_copies(course)) == 1
    assert (course / "work" / "01_first.ipynb").read_text() == content
    assert sources(course / "work" / "01_first-new.ipynb") == ["x = ...  # new"]


@pytest.mark.parametrize("content", SPOILT.values(), ids=SPOILT)
def test_an_original_that_is_no_notebook_any_more_costs_no_work(course, content):
    renew_copies(course)
    (course / "work" / ".originals" / "01_first.ipynb").write_text(content)
    write(course / "work" / "01_first.ipynb", "x = 1")
    assert len(renew_copies(course)) == 1
    assert sources(course / "work" / "01_first.ipynb") == ["x = 1"]


def test_a_picture_in_a_cell_of_text_is_work(course):
    copy = course / "work" / "01_first.ipynb"
    cell = nbformat.v4.new_markdown_cell("![](attachment:a.png)", id="0")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), course / "notebooks" / copy.name)
    renew_copies(course)
    cell.attachments = {"a.png": {"image/png": "aGVsbG8="}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), copy)
    publish(course, "x = ...  # new")
    assert len(renew_copies(course)) == 1
    assert nbformat.read(copy, as_version=4).cells[0].attachments


def test_one_that_ended_between_the_two_files_is_taken_up(course, monkeypatch):
    renew_copies(course)
    publish(course, "x = ...  # new")

    def put_and_die(source, target):
        put(source, target)
        raise KeyboardInterrupt

    put = working_copies.put
    monkeypatch.setattr(working_copies, "put", put_and_die)
    with pytest.raises(KeyboardInterrupt):
        renew_copies(course)
    monkeypatch.undo()
    assert renew_copies(course) == []
    assert names(course) == [".originals", "01_first.ipynb"]
    assert sources(course / "work" / "01_first.ipynb") == ["x = ...  # new"]


@pytest.mark.parametrize("folder", ["work", "work/.originals"])
def test_a_folder_in_the_way_is_named_and_the_others_are_copied(course, folder):
    write(course / "notebooks" / "02_second.ipynb", "y = ...")
    (course / folder / "01_first.ipynb").mkdir(parents=True)
    assert renew_copies(course) == [
        f"{folder}/01_first.ipynb is a folder: move it away to get 01_first.ipynb"
    ]
    assert sources(course / "work" / "02_second.ipynb") == ["y = ..."]


def test_a_file_of_the_learner_is_no_place_for_half_a_copy(course):
    (course / "work").mkdir()
    (course / "work" / "01_first.part").write_text("mine")
    assert renew_copies(course) == []
    assert (course / "work" / "01_first.part").read_text() == "mine"


def test_two_at_once_leave_whole_copies(course):
    notebooks = [f"{number:02}_part.ipynb" for number in range(20)]
    for name in notebooks:
        write(course / "notebooks" / name, "x = ...\n" * 20_000)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(renew_copies, [course] * 4)) == [[]] * 4
    whole = (course / "notebooks" / notebooks[0]).read_bytes()
    for name in notebooks:
        assert (course / "work" / name).read_bytes() == whole
    assert not list((course / "work").rglob("*.part"))


def test_a_copy_that_nobody_knows_of_is_kept(course):
    (course / "work").mkdir()
    write(course / "work" / "01_first.ipynb", "x = 1")
    assert len(renew_copies(course)) == 1
    assert sources(course / "work" / "01_first.ipynb") == ["x = 1"]


def test_a_deleted_copy_is_made_again(course):
    renew_copies(course)
    (course / "work" / "01_first.ipynb").unlink()
    assert renew_copies(course) == []
    assert sources(course / "work" / "01_first.ipynb") == ["x = ..."]


def test_where_nothing_can_be_written_one_sentence_says_so(course):
    (course / "work").write_text("in the way")
    with pytest.raises(LaunchError, match="your copies of the notebooks cannot be written") as told:
        renew_copies(course)
    assert "\n" not in str(told.value)


def test_a_copy_is_whole_or_not_there(course, monkeypatch):
    renew_copies(course)
    publish(course, "x = ...  # new")

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(working_copies.os, "replace", full)
    assert renew_copies(course) == [
        "work/01_first.ipynb could not be renewed (No space left on device)"
    ]
    assert sources(course / "work" / "01_first.ipynb") == ["x = ..."]
    assert names(course) == [".originals", "01_first.ipynb"]


@pytest.fixture
def became(monkeypatch, course):
    """What `open_lab` becomes, in place of becoming it."""
    programs = []
    monkeypatch.setattr(jupyter_lab.os, "execv", lambda *arguments: programs.append(arguments))
    monkeypatch.setattr(jupyter_lab.os, "environ", {"PATH": "/usr/bin"})
    monkeypatch.setattr(jupyter_lab, "PUBLISHED", course)
    monkeypatch.setattr(jupyter_lab, "renew_copies", lambda *_: ["work/x stays"])
    monkeypatch.chdir(course)
    return programs


def test_lab_opens_the_first_copy(became, course, monkeypatch, capsys):
    monkeypatch.setattr(jupyter_lab, "examine", lambda: 0)
    main(["lab", "--no-browser", "--port", "8890"])
    ((program, arguments),) = became
    assert program == sys.executable
    assert arguments[1:3] == ["-m", "jupyterlab"]
    assert "--LabApp.default_url=/lab/tree/work/00_start_here.ipynb" in arguments
    assert arguments[-3:] == ["--no-browser", "--port", "8890"]
    assert os.getcwd() == str(course)
    programs = os.path.dirname(sys.executable)
    assert jupyter_lab.os.environ["PATH"] == f"{programs}{os.pathsep}/usr/bin"
    assert jupyter_lab.os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert capsys.readouterr().out.startswith("work/x stays\nYour notebooks are in work/.")


def test_lab_opens_nothing_on_a_machine_that_cannot_run_it(became, monkeypatch):
    monkeypatch.setattr(jupyter_lab, "examine", lambda: 1)
    assert main(["lab"]) == 1
    assert not became


def test_other_commands_take_no_options_of_jupyterlab(capsys):
    with pytest.raises(SystemExit):
        main(["doctor", "--no-browser"])
    assert "unrecognized arguments: --no-browser" in capsys.readouterr().err


def test_git_does_not_follow_the_copies():
    rules = (working_copies.COURSE / ".gitignore").read_text().splitlines()
    assert f"{working_copies.WORK}/" in rules

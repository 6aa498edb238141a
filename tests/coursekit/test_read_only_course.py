"""One installation for many: the course is read-only, each learner has a folder of their own."""

import os
import shutil

import nbformat
import pytest
from helpers import ROOT
from machines_here import run_as

from coursekit import jupyter_lab
from coursekit.copies.working_copies import learners_folder, renew_copies
from pedagogy_lib import LaunchError
from pedagogy_lib.basics.folders import OWN

PARTS = ("00_start_here", "02c_the_ring")
COPIES = """
import sys; sys.path.insert(0, {course!r})
from pedagogy_lib.__main__ import main
sys.exit(main(["copies"]))
"""
AT_WORK = """
import os, sys
sys.path.insert(0, {course!r})
os.chdir({own!r} + "/work")
os.environ |= {{"PEDAGOGY_COURSE": {own!r}}}
import torch
from pedagogy_lib import lab, launch, progress
shown = lab("collectives")
def ring():
    x = torch.ones(6)
    shown.all_reduce_ring(x)
    return x[0].item()
print(launch(ring, world_size=3).values, progress("02c"), sep="\\n")
"""


@pytest.fixture
def locked_course(tmp_path):
    """A course that nobody may change, with the files that it has."""
    course = tmp_path / "opt" / "course"
    shutil.copytree(ROOT / "pedagogy_lib", course / "pedagogy_lib", ignore=ignore_caches)
    shutil.copytree(ROOT / "labs", course / "labs", ignore=ignore_caches)
    (course / "notebooks").mkdir()
    for part in PARTS:
        shutil.copy(ROOT / "notebooks" / f"{part}.ipynb", course / "notebooks")
    (course / "assets").mkdir()
    set_writable(course, False)
    root = os.environ["PYTEST_DEBUG_TEMPROOT"]  # pytest-xdist has one more folder below it
    for folder in (tmp_path, *tmp_path.parents[: len(tmp_path.relative_to(root).parts)]):
        folder.chmod(0o755)  # so that somebody else finds it
    yield course, files_of(course)
    set_writable(course, True)


def ignore_caches(folder, names):
    return [name for name in names if name == "__pycache__" or ".mine-" in name]


def set_writable(course, is_writable):
    for path in [course, *course.rglob("*")]:
        path.chmod((0o755 if path.is_dir() else 0o644) if is_writable else 0o555)


def files_of(course):
    return sorted((str(path), path.stat().st_mtime_ns) for path in course.rglob("*"))


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@pytest.mark.deep
def test_an_ordinary_user_gets_copies_at_home_and_works_there(locked_course, home):
    course, before = locked_course
    made = run_as("somebody", COPIES.format(course=str(course)), home)
    own = home / "course"
    assert (made.returncode, made.stdout) == (0, f"Your notebooks are in {own}/work/.\n"), made
    assert sorted(path.stem for path in (own / "work").glob("*.ipynb")) == list(PARTS)
    assert (own / "assets").resolve() == course / "assets"
    assert (own / "labs" / "published").resolve() == course / "labs" / "published"
    solved = (ROOT / "solutions" / "labs" / "collectives.py").read_text()
    (own / "labs" / "collectives.py").write_text(solved)
    program = AT_WORK.format(course=str(course), own=str(own))
    worked = run_as("somebody", program, home)
    *lines, values, told = worked.stdout.splitlines()
    assert values == "[3.0, 3.0, 3.0]", worked
    assert "labs/collectives.py, all " in lines[0] and lines[0].endswith("yours")
    assert told.startswith("Part 02c")
    assert files_of(course) == before


def test_work_stays_when_the_installation_is_renewed(tmp_path):
    published, own = tmp_path / "published", tmp_path / "own"
    (published / "notebooks").mkdir(parents=True)
    (published / "labs" / "tables").mkdir(parents=True)
    for name in ("touched", "untouched"):
        (published / "labs" / f"{name}.py").write_text("x = ...\n")
    assert renew_copies(own, published) == []
    (own / "labs" / "touched.py").write_text("x = 1\n")
    for name in ("touched", "untouched"):
        (published / "labs" / f"{name}.py").write_text("y = ...\n")
    assert renew_copies(own, published) == [
        "labs/touched.py stays as you left it; its new version is labs/touched-new.py"
    ]
    texts = {path.name: path.read_text() for path in (own / "labs").glob("*.py")}
    assert texts == {
        "touched.py": "x = 1\n",
        "touched-new.py": "y = ...\n",
        "untouched.py": "y = ...\n",
    }


def test_links_follow_an_installation_that_has_moved(tmp_path):
    own = tmp_path / "own"
    for name in ("before", "after"):
        for folder in ("notebooks", "labs/tables", "assets"):
            (tmp_path / name / folder).mkdir(parents=True)
        renew_copies(own, tmp_path / name)
    assert (own / "assets").readlink() == tmp_path / "after" / "assets"
    assert (own / "labs" / "tables").readlink() == tmp_path / "after" / "labs" / "tables"


@pytest.mark.parametrize("is_writable", [True, False])
def test_whose_folder_it_is(tmp_path, monkeypatch, is_writable):
    monkeypatch.delenv(OWN, raising=False)
    monkeypatch.setattr(os, "access", lambda path, wish: is_writable)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    home = tmp_path / "home" / "course"
    assert learners_folder(tmp_path) == (tmp_path if is_writable else home)
    monkeypatch.setenv(OWN, str(tmp_path / "elsewhere"))
    assert learners_folder(tmp_path) == tmp_path / "elsewhere"


def test_the_server_of_a_hub_opens_the_learners_own_copies(tmp_path, monkeypatch):
    published, home, programs = tmp_path / "published", tmp_path / "home", []
    (published / "labs").mkdir(parents=True)
    (published / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(), published / "notebooks" / "00_start_here.ipynb")
    own_environ = {OWN: str(home), "PATH": "/usr/bin"}
    monkeypatch.setattr(jupyter_lab.os, "environ", own_environ)
    monkeypatch.setattr(jupyter_lab.os, "execv", lambda *words: programs.append(words))
    monkeypatch.setattr(jupyter_lab, "PUBLISHED", published)
    monkeypatch.chdir(tmp_path)
    jupyter_lab.open_hub(["--port=8900"])
    ((_, words),) = programs
    assert words[1:3] == ["-m", "jupyterhub.singleuser"] and words[-1] == "--port=8900"
    assert "--LabApp.default_url=/lab/tree/work/00_start_here.ipynb" in words
    assert (os.getcwd(), own_environ[OWN]) == (str(home), str(home))
    assert (home / "work" / "00_start_here.ipynb").exists()


def test_without_a_course_there_is_one_sentence(tmp_path):
    with pytest.raises(LaunchError, match="pedagogy_lib alone has no notebooks/"):
        renew_copies(tmp_path / "own", tmp_path)

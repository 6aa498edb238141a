"""A learner's folder is brought to a newer handout, and nothing of the learner's is lost."""

import json
import os

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from classroom.handout.archive import write_files, write_handout
from classroom.handout.contents import Contents
from classroom.handout.files import add_version_file
from coursekit.copies import handout_update
from coursekit.copies.handout_update import update
from coursekit.copies.working_copies import renew_copies
from pedagogy_lib.basics.errors import WrongInput

LAB = '''"""A lab."""

import torch


def first(x):
    """Exercise 2.1. The first."""
    ...  # your code here


@torch.no_grad()
def second(x):
    """Exercise 2.2. The second."""
    ...  # your code here


def helper(x):
    return x + 1


def shown(x):
    return x
'''
NEW_LAB = LAB.replace("The second.", "The second, said better.").replace("x + 1", "x + 2")
MINE = (
    LAB.replace("import torch\n", "import math\n\nimport torch\n\nHALF = 0.5\n")
    .replace('The first."""\n    ...  # your code here', 'The first."""\n    return math.pi * HALF')
    .replace("return x + 1", "return x + 1  # my note")
    .replace("def shown(x):\n    return x", "def shown(x):\n    print(x)\n    return x")
)
HOLE = "def cell(x):\n    ...  # your code here"


def notebook(*cells) -> bytes:
    made = [new_code_cell(text) if is_code else new_markdown_cell(text) for is_code, text in cells]
    for number, one in enumerate(made):
        one.id = f"cell-{number}-{len(one.source)}"
    return nbformat.writes(new_notebook(cells=made), version=4).encode()


OLD = {
    "labs/one.py": LAB.encode(),
    "labs/gone.py": b"x = 1\n",
    "pedagogy_lib/old.py": b"a = 1\n",
    "README.md": b"old\n",
    "notebooks/02_a.ipynb": notebook((0, "Intro"), (1, "import torch"), (1, HOLE), (0, "End")),
}
NEW = {
    "labs/one.py": NEW_LAB.encode(),
    "pedagogy_lib/new.py": b"a = 2\n",
    "README.md": b"new\n",
    "notebooks/02_a.ipynb": notebook(
        (0, "Intro, longer"), (1, "import torch"), (1, f"{HOLE}\n\n\ncell(1)"), (0, "End")
    ),
}


def handout(files) -> dict[str, bytes]:
    contents = Contents((), (), (), own=frozenset(), first=(), names=("02",), is_whole=False)
    return add_version_file(dict(files), contents)


def put(folder, files):
    write_files(handout(files), folder)
    return folder


@pytest.fixture
def course(tmp_path):
    """A learner's folder, in which the copies of notebooks are made."""
    folder = put(tmp_path / "course", OLD)
    renew_copies(folder)
    return folder


@pytest.fixture
def newer(tmp_path):
    return put(tmp_path / "newer", NEW)


def write_in_copy(course, **changes):
    """Change cells of the learner's copy: {number: text}; "own" is a new one behind the third."""
    path = course / "work" / "02_a.ipynb"
    cells = nbformat.read(path, as_version=4)
    for name, text in changes.items():
        if name == "own":
            cells.cells.insert(3, new_code_cell(text))
        else:
            cells.cells[int(name.strip("_"))].source = text
    nbformat.write(cells, path)
    return path


def sources(path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def test_what_is_untouched_becomes_the_new_version(course, newer):
    told = update(str(newer), course)
    assert [told[0].split(":")[0], len(told)] == ["Updated", 2]
    assert (course / "labs" / "one.py").read_text() == NEW_LAB
    assert (course / "README.md").read_text() == "new\n"
    assert not (course / "labs" / "gone.py").exists()
    assert not (course / "pedagogy_lib" / "old.py").exists()
    assert sources(course / "work" / "02_a.ipynb") == sources(newer / "notebooks" / "02_a.ipynb")
    (kept,) = course.glob("kept-*")
    assert (kept / "labs" / "one.py").read_text() == LAB
    assert (kept / "pedagogy_lib" / "old.py").exists()
    assert not (course / ".update").exists()


def test_functions_of_a_lab_are_carried_over_by_name(course, newer):
    (course / "labs" / "one.py").write_text(MINE)
    told = update(str(newer), course)
    text = (course / "labs" / "one.py").read_text()
    assert "labs/one.py: first is yours" in told
    assert "labs/one.py: shown is yours" in told  # nobody else has changed it
    assert any("one.py: helper has changed in the handout" in line for line in told)
    assert not any("second" in line for line in told)
    assert "The second, said better." in text
    assert "return x + 2" in text
    assert text.index("import math") < text.index("HALF = 0.5") < text.index("def first")
    space: dict = {}
    exec(text, space)
    assert space["first"](0) == pytest.approx(1.5707963)
    (kept,) = course.glob("kept-*")
    assert (kept / "labs" / "one.py").read_text() == MINE


def test_what_nothing_calls_is_told(course, newer):
    (course / "labs" / "one.py").write_text(f"{MINE}\n\ndef tried(x):\n    return x\n")
    told = update(str(newer), course)
    (kept,) = course.glob("kept-*")
    line = f"labs/one.py: tried is in {kept.name}/ alone: nothing that was taken over calls it"
    assert line in told
    assert sum("alone" in line for line in told) == 1


def test_the_answer_in_a_decorated_function_keeps_its_decorator_once(course, newer):
    path = course / "labs" / "one.py"
    path.write_text(
        LAB.replace('second."""\n    ...  # your code here', 'second."""\n    return x')
    )
    assert "labs/one.py: second is yours" in update(str(newer), course)
    assert path.read_text().count("@torch.no_grad()") == 1
    assert "    return x\n" in path.read_text()


def test_a_lab_that_cannot_be_read_is_kept_beside(course, newer):
    (course / "labs" / "one.py").write_text("def first(:\n")
    told = update(str(newer), course)
    assert any("labs/one.py: yours cannot be read" in line for line in told)
    assert (course / "labs" / "one.py").read_text() == NEW_LAB
    (kept,) = course.glob("kept-*")
    assert (kept / "labs" / "one.py").read_text() == "def first(:\n"


def test_cells_are_carried_over_and_own_ones_stay(course, newer):
    path = write_in_copy(course, _1="import torch, math", _2="def cell(x):\n    return x", own="7")
    told = update(str(newer), course)
    assert "work/02_a.ipynb: cell is yours" in told
    assert sources(path) == [
        "Intro, longer",
        "import torch, math",
        "7",
        "def cell(x):\n    return x\n\n\ncell(1)",
        "End",
    ]
    assert renew_copies(course) == []


def test_own_files_and_labs_stay(course, newer):
    (course / "labs" / "gone.py").write_text("x = 2\n")
    (course / "labs" / "mine.py").write_text("x = 3\n")
    (course / "work" / "notes.txt").write_text("notes")
    assert "labs/gone.py is not in the new handout; yours stays" in update(str(newer), course)
    assert (course / "labs" / "gone.py").read_text() == "x = 2\n"
    assert (course / "labs" / "mine.py").read_text() == "x = 3\n"
    assert (course / "work" / "notes.txt").read_text() == "notes"


def test_a_zip_does_the_same_and_the_same_version_says_so(course, tmp_path):
    _, archive = write_handout(handout(NEW), tmp_path / "zips")
    update(str(archive), course)
    version = json.loads((course / "HANDOUT.json").read_text())["version"]
    assert update(str(archive), course) == [f"This is version {version} already."]
    assert len(list(course.glob("kept-*"))) == 1


@pytest.mark.parametrize("after", range(6))
def test_an_interruption_loses_nothing(course, newer, monkeypatch, after):
    (course / "labs" / "one.py").write_text(MINE)
    path = write_in_copy(course, _2="def cell(x):\n    return x", own="7")
    replace, count = os.replace, iter(range(100))

    def replace_or_interrupt(*names):
        if next(count) == after:
            raise KeyboardInterrupt
        replace(*names)

    monkeypatch.setattr(handout_update.os, "replace", replace_or_interrupt)
    with pytest.raises(KeyboardInterrupt):
        update(str(newer), course)
    monkeypatch.undo()
    assert update(str(newer), course)[0].startswith("Updated")
    assert "math.pi * HALF" in (course / "labs" / "one.py").read_text()
    assert (course / "labs" / "one.py").read_text().count("HALF = 0.5") == 1
    assert sources(path).count("7") == 1
    assert "def cell(x):\n    return x\n\n\ncell(1)" in sources(path)
    kept = [one.read_text() for one in course.glob("kept-*/labs/one.py")]
    assert MINE in kept
    assert update(str(newer), course)[0].endswith("already.")


def test_what_is_no_handout_is_refused(course, newer, tmp_path):
    (tmp_path / "some.zip").write_bytes(b"PK nothing")
    for path, said in {
        str(tmp_path / "nowhere"): "there is no",
        str(tmp_path / "some.zip"): "is no zip that can be read",
        str(tmp_path): "is no handout",
    }.items():
        with pytest.raises(WrongInput, match=said):
            update(path, course)
    (newer / "README.md").write_text("worked in")
    with pytest.raises(WrongInput, match=r"see README\.md"):
        update(str(newer), course)
    with pytest.raises(WrongInput, match=r"Call this in yours"):
        update(str(newer), tmp_path)

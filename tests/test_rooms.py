"""The rooms of `pedagogy_lib`: each imports from those before it alone, and no file is long."""

import ast
from functools import cache
from pathlib import Path

import pytest
from helpers import ROOT

PACKAGE = ROOT / "pedagogy_lib"
ROOMS = (
    "basics", "schedules", "machines", "measuring", "ranks", "pictures", "widgets", "films",
    "course", "exercises",
)  # fmt: skip
FILES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 300


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def imported_by(path: Path) -> set[Path]:
    """The files of the package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            files = [folder.with_suffix(".py"), *(folder / f"{a.name}.py" for a in node.names)]
            found |= {file for file in files if file.exists()}
    return found


def test_every_folder_is_a_room():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_those_before_it(room):
    allowed = ROOMS[: ROOMS.index(room) + 1]
    for path in (PACKAGE / room).rglob("*.py"):
        for other in imported_by(path):
            assert room_of(other) in allowed, f"{path} imports {other}"


def test_no_file_imports_itself_through_others():
    @cache
    def depth(path) -> int:
        """Raises RecursionError in a circle."""
        return 1 + max(map(depth, imported_by(path)), default=0)

    assert max(map(depth, FILES)) > 3


@pytest.mark.parametrize("room", ROOMS)
def test_no_file_is_long(room):
    for path in (PACKAGE / room).rglob("*.py"):
        assert len(path.read_text().splitlines()) <= MOST_LINES, path

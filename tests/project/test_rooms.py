"""The rooms of the course: each imports from those before it alone, and no file is long."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from helpers import ROOT

import pedagogy_lib
from coursekit.chapters import FOLDER

PACKAGE, KIT = ROOT / "pedagogy_lib", ROOT / "coursekit"
ROOMS = (
    "basics", "schedules", "machines", "measuring", "ranks", "pictures", "widgets",
)  # fmt: skip
MOST_LINES = 300
CHECKS = sorted(FOLDER.glob("ch*/exercises/**/*.py"))
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in [*PACKAGE.rglob("*.py"), *KIT.rglob("*.py")]
} | {
    ".".join(["coursekit", "content", *path.relative_to(FOLDER).with_suffix("").parts]): path
    for path in CHECKS
    if path.name != "answers.py"
}
NAMES = {path: name for name, path in FILES.items()}
CALLS_CHECKS = KIT / "check_runner.py"  # by importlib: all of them


def find_imports(path: Path) -> set[Path]:
    """Return the files of the course that a file imports, wherever in it."""
    package = NAMES[path].split(".")[: None if path.name == "__init__.py" else -1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    checks = {check for check in CHECKS if check.name == "check.py" and path == CALLS_CHECKS}
    return {FILES[name] for name in found & FILES.keys()} - {path} | checks


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def test_every_folder_is_a_room():
    assert {path.parent.name for path in PACKAGE.glob("*/*.py")} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_those_before_it(room):
    allowed = ROOMS[: ROOMS.index(room) + 1]
    for path in (PACKAGE / room).rglob("*.py"):
        for other in find_imports(path):
            assert other.is_relative_to(PACKAGE), f"{path} imports {other}: the bench stands alone"
            assert room_of(other) in allowed, f"{path} imports {other}"


def test_tests_of_the_bench_use_nothing_of_the_course():
    """So that they also pass where `pedagogy_lib` is installed alone; programs in strings count."""
    of_course = {name for name, home in pedagogy_lib._HOME.items() if home.startswith("coursekit")}
    for path in (ROOT / "tests" / "bench").rglob("*.py"):
        text = path.read_text()
        names = " ".join(re.findall(r"from pedagogy_lib import (\([^)]*\)|.*)", text))
        assert not of_course & set(re.findall(r"\w+", names)), path
        assert not re.search(r"\b(import|from) (coursekit|classroom)\b", text), path


def test_the_kit_of_the_checks_imports_no_check():
    for path in KIT.glob("kit/*.py"):
        assert not [other for other in find_imports(path) if other.is_relative_to(FOLDER)]


def test_no_file_imports_itself_through_others():
    """Also not through importlib: `check` imports the checks."""

    @cache
    def depth(path) -> int:
        """Raises RecursionError in a circle."""
        return 1 + max(map(depth, find_imports(path)), default=0)

    assert max(map(depth, NAMES)) > 5


def test_no_file_is_long():
    long = [path for path in NAMES if len(path.read_text().splitlines()) > MOST_LINES]
    assert long == []

"""Functions whose name asks a question, such as `is_hole` or `has_room`, return the answer."""

import ast
from pathlib import Path

from each import repeat_for_each
from helpers import ROOT

FOLDERS = ("coursekit", "pedagogy_lib", "classroom", "tests", "chapters/*/exercises")
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
OTHERS = FUNCTIONS | ast.ClassDef | ast.Lambda


def python_files() -> list[Path]:
    """Labs are left out: learners have saved answers with the names of their methods."""
    return sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py"))


def predicates_in(text) -> list:
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, FUNCTIONS)]
    return [node for node in nodes if node.name.lstrip("_").startswith(("is_", "has_"))]


def returns_a_value(node) -> bool:
    """Return whether a function has a `return` with a value, other than in a nested function."""
    inner = [one for one in ast.iter_child_nodes(node) if not isinstance(one, OTHERS)]
    return any(
        (isinstance(one, ast.Return) and one.value is not None) or returns_a_value(one)
        for one in inner
    )


@repeat_for_each("path", python_files, lambda path: path.relative_to(ROOT).as_posix())
def test_each_function_named_is_or_has_returns_a_value(path):
    silent = [node.name for node in predicates_in(path.read_text()) if not returns_a_value(node)]
    assert not silent, "name these after what they do, such as note_gradient or need_tensor"


def test_a_predicate_without_a_value_is_found():
    text = "def is_full(self):\n    def inner():\n        return 1\n    self.note()\n    return\n"
    (node,) = predicates_in(text)
    assert not returns_a_value(node)
    assert returns_a_value(*predicates_in("def has_room(x):\n    if x:\n        return False\n"))

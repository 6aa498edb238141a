"""What type checkers and completion see of the package is what it has."""

import ast
import importlib
from pathlib import Path

import pedagogy_lib

STUB = Path(pedagogy_lib.__file__).with_suffix(".pyi")


def imports_of_stub():
    """(module, name, its name in the package) of each import."""
    body = ast.parse(STUB.read_text(encoding="utf-8")).body
    found = [line for line in body if isinstance(line, ast.ImportFrom)]
    modules = [("." * line.level + line.module, line) for line in found]
    return [(module, name.name, name.asname) for module, line in modules for name in line.names]


def test_the_stub_names_what_is_public_and_nothing_else():
    assert sorted(public for _, _, public in imports_of_stub()) == pedagogy_lib.__all__


def test_each_name_comes_from_its_home():
    homes = {public: module for module, _, public in imports_of_stub()}
    assert homes == pedagogy_lib._HOME


def test_each_import_of_the_stub_finds_what_the_package_has():
    for module, name, public in imports_of_stub():
        assert name == public
        found = getattr(importlib.import_module(module, "pedagogy_lib"), name)
        assert found is getattr(pedagogy_lib, public)

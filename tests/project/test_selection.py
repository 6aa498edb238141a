"""Which tests `make test` leaves to the deep stages, and how they are dealt out."""

import ast
import re

import distribution
import kernels
import pytest
from exercise_names import EX
from helpers import ROOT

import pedagogy_lib
from coursekit.building import build

SAMPLE = re.search(r"^SAMPLE := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
PARTS = [build.source_of(stem) for stem in SAMPLE.replace("\\\n", " ").split()]


def words_of(*paths) -> set[str]:
    """Every name that programs use."""
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    plain = {node.id for node in nodes if isinstance(node, ast.Name)}
    return plain | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def test_make_test_executes_short_parts_of_five_chapters():
    assert len({path.stem[:2] for path in PARTS}) == len(PARTS) == 5
    assert not [path for path in PARTS if not path.exists()]


def test_what_is_deep_is_left_out(request):
    if request.config.option.markexpr != "not deep":
        pytest.skip("this run is to try deep tests, too")
    items = request.session.items
    assert not [item.nodeid for item in items if item.get_closest_marker("deep")]


def test_every_public_name_is_used_by_these_parts_or_by_a_test():
    tests = (ROOT / "tests").rglob("*.py")
    assert set(pedagogy_lib.__all__) <= words_of(*PARTS, *tests)


def test_the_cells_of_a_notebook_and_the_tests_of_a_file_stay_together():
    pieces = map(distribution.piece_of, ("solutions/a.ipynb::Cell 0", "solutions/a.ipynb::Cell 1"))
    assert len(set(pieces)) == 1
    assert (
        distribution.piece_of("tests/bench/ranks/test_run.py::test_a[1]")
        == "tests/bench/ranks/test_run.py"
    )


def test_answers_to_different_exercises_are_dealt_out_one_by_one():
    test = "tests/chapters/test_answers.py::test_right_answers_pass[{} in place]"
    one, same, other = (
        distribution.piece_of(test.format(n)) for n in (EX.cut, EX.cut, EX.split_cross_entropy)
    )
    assert one == same != other


def test_every_piece_comes_under_one_setting_of_the_kernels():
    pieces, count = {f"piece {k}" for k in range(43)}, len(kernels.SETTINGS)
    shares = [kernels.select_share(pieces, f"{number} of {count}") for number in range(count)]
    assert set.union(*shares) == pieces and sum(map(len, shares)) == len(pieces)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_without_shares_every_piece_is_chosen():
    assert kernels.select_share(["a", "b"], None) == {"a", "b"}

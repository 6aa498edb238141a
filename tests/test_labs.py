"""Labs: whose function runs, when edits count, and what a broken file costs."""

import os

import pytest
import torch
from helpers import ROOT, put_lab

from pedagogy_lib import LaunchError, build, lab, labs, launch

SOLUTION = '''"""A lab."""

import math


def helper(x):
    return 10 * x


def double(x):
    """Exercise 7.1. Twice as much."""
    return 2 * x


def area(r):
    """Exercise 7.2. Of a circle."""
    return math.pi * r**2


def both(x):
    """Exercise 7.3. Double, and then the helper."""
    return helper(double(x))
'''
HOLES = SOLUTION.replace("return 2 * x", "...  # your code here").replace(
    "return helper(double(x))", "...  # your code here"
)


@pytest.fixture
def learner(tmp_path, monkeypatch):
    """Write the learner's file; the solution stands beside it, unless it is None."""

    def write(text, solution=SOLUTION):
        put_lab(tmp_path, monkeypatch, "shapes", text, solution)
        path = tmp_path / "labs" / "shapes.py"
        write.time += 10
        os.utime(path, (write.time, write.time))  # edits in one tick of the clock count as well
        return path

    write.time = 1_000_000_000
    return write


def test_ours_where_there_is_a_hole(learner, capsys):
    learner(HOLES)
    shapes = lab("shapes")
    assert capsys.readouterr().out == "labs/shapes.py, double: ours · area: yours · both: ours\n"
    assert shapes.double(4) == 8
    assert shapes.both(3) == 60
    assert repr(shapes) == "labs/shapes.py, double: ours · area: yours · both: ours"


def test_ours_calls_what_the_learner_has_written(learner):
    learner(HOLES.replace("return 10 * x", "return 1000 * x"))
    assert lab("shapes").both(3) == 6000


@pytest.mark.parametrize(("text", "whose"), [(SOLUTION, "yours"), ("", "ours")])
def test_all_by_one(text, whose, learner, capsys):
    learner(text)
    assert lab("shapes").both(3) == 60
    assert capsys.readouterr().out == f"labs/shapes.py, all 3 functions: {whose}\n"


def test_a_hole_that_was_left_below_the_answer_still_counts_as_one(learner, capsys):
    learner(SOLUTION.replace("    return 2 * x", "    return 3 * x\n    ..."))
    lab("shapes")
    assert "double: ours" in capsys.readouterr().out


USES_SHAPES = '''import shapes
from shapes import area


def quadruple(x):
    """Exercise 7.4. Four times as much."""
    return shapes.double(shapes.double(x))


def two_areas(r):
    """Exercise 7.5. The area of two circles."""
    import math

    return 2 * area(r) / math.pi
'''


def test_a_lab_imports_another_as_far_as_it_is_written(learner, tmp_path, monkeypatch, capsys):
    def in_rank(more):
        return more.quadruple(1), more.two_areas(1)

    learner(HOLES.replace("return math.pi * r**2", "return math.pi * 50"))
    more_holes = USES_SHAPES.replace("return 2 * area(r) / math.pi", "...  # your code here")
    put_lab(tmp_path, monkeypatch, "more", more_holes, USES_SHAPES)
    more = lab("more")
    assert capsys.readouterr().out == "labs/more.py, quadruple: yours · two_areas: ours\n"
    assert launch(in_rank, more, world_size=2).values == [(4, 100)] * 2
    learner(HOLES.replace("...  # your code here", "return 5 * x", 1))
    assert more.quadruple(1) == 25
    assert more.two_areas(1) == 2
    assert launch(lambda: in_rank(more), world_size=2).values == [(25, 2)] * 2


def test_a_lab_whose_sibling_is_broken_says_so(learner, tmp_path, monkeypatch, capsys):
    learner(SOLUTION.replace("def double(x):", "def double(x)"))
    put_lab(tmp_path, monkeypatch, "more", USES_SHAPES, USES_SHAPES)
    assert lab("more").quadruple(1) == 4
    assert "labs/shapes.py, line 10: SyntaxError" in capsys.readouterr().out
    learner(SOLUTION)
    assert repr(lab("more")) == "labs/more.py, all 2 functions: yours"


def test_a_sibling_with_a_hole_and_no_solution(learner, tmp_path, monkeypatch):
    learner(HOLES, solution=None)
    put_lab(tmp_path, monkeypatch, "more", USES_SHAPES, None)
    with pytest.raises(labs.NotSolvedYet, match=r"exercise 7\.1 comes first"):
        lab("more").quadruple(1)


def test_a_lab_without_exercises(learner, capsys):
    learner("x = 1\n", None)
    assert lab("shapes").x == 1
    assert capsys.readouterr().out == "labs/shapes.py: without exercises\n"


def test_an_edit_counts_at_the_next_launch(learner, capsys):
    def double_in_rank(shapes):
        return shapes.double(1)

    learner(HOLES)
    shapes = lab("shapes")
    capsys.readouterr()
    assert launch(double_in_rank, shapes, world_size=2).values == [2, 2]
    assert capsys.readouterr().out == ""
    learner(HOLES.replace("...  # your code here", "return 200 * x", 1))
    assert launch(double_in_rank, shapes, world_size=2).values == [200, 200]
    assert capsys.readouterr().out == "labs/shapes.py, double: yours · area: yours · both: ours\n"
    learner(HOLES.replace("...  # your code here", "return 300 * x", 1))
    assert launch(lambda: shapes.double(1), world_size=2).values == [300, 300]
    assert shapes.double(1) == 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            SOLUTION.replace("def double(x):", "def double(x)"),
            "labs/shapes.py, line 10: SyntaxError: expected ':'\n    def double(x)\n",
        ),
        (
            SOLUTION.replace("return 2 * x", "\treturn 2 * x"),
            "labs/shapes.py, line 12: IndentationError: ",
        ),
        (
            SOLUTION + "\nanswer = area(undefined)\n",
            "labs/shapes.py, line 24: NameError: name 'undefined' is not defined\n"
            "    answer = area(undefined)\n",
        ),
        (
            SOLUTION.replace("import math", "import no_such_module"),
            "labs/shapes.py, line 3: ModuleNotFoundError: No module named 'no_such_module'\n",
        ),
    ],
)
def test_a_broken_file_is_told_and_blocks_nothing(text, said, learner, capsys):
    learner(text)
    shapes = lab("shapes")
    out = capsys.readouterr().out
    assert said in out
    assert out.endswith(
        "Your file cannot be read until this is fixed. Until then:\n"
        "labs/shapes.py, all 3 functions: ours\n"
    )
    assert launch(lambda: shapes.both(3), world_size=2).values == [60, 60]


def test_an_error_in_a_rank_names_the_learners_line(learner):
    learner(SOLUTION.replace("return 2 * x", "return 2 / 0"))
    shapes = lab("shapes")
    with pytest.raises(LaunchError, match=r"line 12, in double\(\):  return 2 / 0"):
        launch(lambda: shapes.double(1), world_size=2)


def test_without_solutions_a_hole_says_which_exercise_comes_first(learner, capsys):
    learner(HOLES, solution=None)
    shapes = lab("shapes")
    assert (
        capsys.readouterr().out
        == "labs/shapes.py, double: nobody's · area: yours · both: nobody's\n"
    )
    assert shapes.area(0) == 0
    sentence = "exercise 7.1 comes first: double in labs/shapes.py still has its hole"
    with pytest.raises(labs.NotSolvedYet, match=sentence):
        shapes.double(1)
    with pytest.raises(LaunchError, match=sentence):
        launch(lambda: shapes.double(1), world_size=2)


CLASSES = '''
class Shape:
    """Exercise 7.1. It has an area."""

    def area(self):
        return 4


class Square(Shape):
    def double(self):
        return 2 * self.area()


SHAPES = [Shape, Square]
'''
CLASSES_WITH_HOLE = CLASSES.replace("return 4", "...  # your code here")


def test_what_refers_to_a_hole_gets_ours(learner):
    """A class that derives from it, and a list that holds it."""
    learner(CLASSES_WITH_HOLE, solution=CLASSES)
    shapes = lab("shapes")
    assert shapes.Square().double() == 8
    assert [shape().area() for shape in shapes.SHAPES] == [4, 4]
    assert shapes.SHAPES[0] is shapes.Shape


def test_what_derives_from_a_hole_that_nobody_has_filled(learner):
    learner(CLASSES_WITH_HOLE, solution=None)
    for shape in ("Shape", "Square"):
        with pytest.raises(labs.NotSolvedYet, match=r"exercise 7\.1 comes first: Shape in labs"):
            getattr(lab("shapes"), shape)()


@pytest.mark.parametrize("shape", ["Shape", "Square"])
def test_whatever_is_asked_of_a_class_with_a_hole_is_refused(shape, learner):
    learner(CLASSES_WITH_HOLE, solution=None)
    found = getattr(lab("shapes"), shape)
    sentence = r"exercise 7\.1 comes first: Shape in labs/shapes.py still has its hole"
    with pytest.raises(labs.NotSolvedYet, match=sentence):
        found.apply(1)
    with pytest.raises(LaunchError, match=sentence):
        launch(lambda shapes: getattr(shapes, shape).apply(1), lab("shapes"), world_size=1)
    assert not hasattr(found, "__wrapped__")  # Python itself asks for such names


def test_names_that_are_not_there(learner):
    learner(HOLES)
    with pytest.raises(ValueError, match="there is no lab 'circles'; there are: shapes"):
        lab("circles")
    with pytest.raises(AttributeError, match=r"labs/shapes.py has no 'triple'"):
        lab("shapes").triple  # noqa: B018


def test_notebooks_of_the_solutions_take_solved_labs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT / "solutions")
    lab("collectives")
    assert "yours" in capsys.readouterr().out
    monkeypatch.chdir(ROOT / "notebooks")
    assert labs.find_lab("collectives")._path == ROOT / "labs" / "collectives.py"


@pytest.mark.parametrize("source", build.lab_sources(), ids=lambda path: path.stem)
def test_built_labs_have_holes_exactly_where_there_are_exercises(source, monkeypatch):
    tree = labs.ast.parse((ROOT / "labs" / source.name).read_text())
    assert labs.holes_in(tree) == set(labs.numbers_in(tree))
    assert not labs.holes_in(labs.ast.parse(source.read_text()))


def test_a_lab_is_not_a_module_that_ranks_cannot_import(learner):
    learner(SOLUTION)
    area = lab("shapes").area
    assert launch(lambda: area(torch.tensor(1.0)).item(), world_size=2).values[0] > 3.14

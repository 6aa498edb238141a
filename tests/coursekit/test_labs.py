"""Labs: whose function runs, when edits count, and what a broken file costs."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from each import repeat_for_each
from helpers import ROOT, failure, put_lab
from selection import parametrize

from coursekit import labs
from coursekit.building import build
from coursekit.labs import holes, module, snapshot
from pedagogy_lib import LaunchError, lab, launch

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


@pytest.mark.parametrize(
    "docstring", ["", '    """My notes."""\n', '    """Ex. 7.1: twice."""\n    y = x\n']
)
def test_a_hole_whose_docstring_was_changed_is_still_one(docstring, learner, capsys):
    learner(HOLES.replace('    """Exercise 7.1. Twice as much."""\n', docstring))
    assert lab("shapes").both(3) == 60
    assert capsys.readouterr().out == "labs/shapes.py, double: ours · area: yours · both: ours\n"


@pytest.mark.parametrize(
    "text",
    [
        "def mine(x):\n    return 5 * x\n\ndouble = mine\n",
        "double = lambda x: 5 * x\n",
        "if True:\n    def double(x):\n        return 5 * x\n",
        HOLES + "\n\ndef double(x):\n    return 5 * x\n",
        "import functools, operator\ndouble = functools.partial(operator.mul, 5)\n",
    ],
)
def test_what_the_learner_has_defined_in_another_way_is_theirs(text, learner, capsys):
    learner(text)
    assert lab("shapes").double(1) == 5
    assert "double: yours" in capsys.readouterr().out


@pytest.mark.parametrize(
    "more",
    [
        'def double(x):\n    """Exercise 7.1."""\n    ...\n',
        "alias = double\ndouble = None\ndouble = alias\n",
        "import functools\ndouble = functools.wraps(double)(lambda *args, f=double: f(*args))\n",
    ],
)
def test_ours_stays_ours_under_the_learners_statements(more, learner, capsys):
    learner(f"{HOLES}\n\n{more}")
    assert lab("shapes").double(1) == 2
    assert "double: ours" in capsys.readouterr().out


def test_a_hole_below_what_was_defined_counts(learner):
    learner(SOLUTION + '\n\ndef double(x):\n    """Exercise 7.1."""\n    ...\n', solution=None)
    shapes = lab("shapes")
    assert repr(shapes) == "labs/shapes.py, double: unwritten · area: yours · both: yours"
    with pytest.raises(module.NotSolvedYet, match=r"exercise 7\.1 comes first"):
        shapes.both(1)


POINT = '''from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Point:
    x: "int"
    y: NotDefined = 2


def double(point: NotDefined):
    """Exercise 7.1. Twice as much."""
    return 2 * point.x * point.y
'''


def test_annotations_may_be_texts(learner, capsys):
    learner(POINT)
    shapes = lab("shapes")
    assert "double: yours" in capsys.readouterr().out
    assert launch(lambda: shapes.double(shapes.Point(3)), world_size=2).values == [12, 12]
    point = shapes.Point(4)
    assert launch(lambda: point.x, world_size=1).values == [4]  # its class travels, too
    assert "shapes" not in module.sys.modules


def test_a_module_of_the_same_name_stays_what_it_is(learner, monkeypatch):
    other = module.ModuleType("shapes")
    monkeypatch.setitem(module.sys.modules, "shapes", other)
    learner(POINT)
    assert lab("shapes").Point(3).y == 2
    assert module.sys.modules["shapes"] is other


def test_a_lab_may_launch_while_it_is_read(learner):
    learner(SOLUTION + "\nfrom pedagogy_lib import launch\n"
            "values = launch(double, 3, world_size=1).values\n")  # fmt: skip
    assert lab("shapes").values == [6]


def test_a_lab_of_an_editor_that_writes_a_mark_of_its_encoding(learner, capsys):
    learner("").write_bytes(b"\xef\xbb\xbf" + SOLUTION.replace("\n", "\r\n").encode())
    assert lab("shapes").both(3) == 60
    assert capsys.readouterr().out == "labs/shapes.py, all 3 functions: yours\n"


def test_a_lab_in_the_encoding_that_it_declares(learner):
    text = "# -*- coding: latin-1 -*-\nname = 'größer'\n" + SOLUTION
    learner("").write_bytes(text.encode("latin-1"))
    assert lab("shapes").name == "größer"


DEEP = "\n\ndef deep(x):\n    return " + "+".join(["x"] * 100_000) + "\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            "# größer\n".encode("latin-1"),
            "SyntaxError: Python cannot decode it: save it as UTF-8\n",
        ),
        (
            f"{SOLUTION}# größer\n".encode("latin-1"),
            "SyntaxError: Python cannot decode it: save it as UTF-8\n",
        ),
        (SOLUTION.encode("utf-16"), "SyntaxError: Python cannot decode it: save it as UTF-8\n"),
        (f"{SOLUTION}\0".encode(), "Error: source code "),
        (f"{SOLUTION}{DEEP}".encode(), "Error: "),
    ],
    ids=["first line", "last line", "utf-16", "null", "deep"],
)
def test_a_file_that_cannot_be_read_at_all_is_told(data, said, learner, capsys):
    learner("").write_bytes(data)
    shapes = lab("shapes")
    out = capsys.readouterr().out
    assert said in out
    assert out.startswith("labs/shapes.py")
    assert out.endswith("Until then:\nlabs/shapes.py, all 3 functions: ours\n")
    assert shapes.both(3) == 60


def test_an_error_without_a_line_of_the_lab_names_the_statement(learner, capsys, monkeypatch):
    """A function that is too deep for the compiler, in the Pythons in which the parser takes it."""
    learner(SOLUTION)
    run = labs.LabModule.run

    def fail(self, node, path):
        if path == self.path and node.lineno == 10:
            raise RecursionError("too deep").with_traceback(None)
        run(self, node, path)

    monkeypatch.setattr(labs.LabModule, "run", fail)
    lab("shapes")
    said = "./labs/shapes.py:10: RecursionError: too deep\n    def double(x):\n"
    assert capsys.readouterr().out.startswith(said)


def test_an_error_in_a_file_that_a_lab_imports_names_the_line_of_the_lab(
    learner, tmp_path, capsys, monkeypatch
):
    (tmp_path / "my_helpers_7.py").write_text("\n\n\n\ndef f(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    learner(f"x = 1\nimport my_helpers_7\n{SOLUTION}")
    lab("shapes")
    said = "./labs/shapes.py:2: SyntaxError: invalid syntax\n    import my_helpers_7\n"
    assert capsys.readouterr().out.startswith(said)


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
    def call_both(more):
        return more.quadruple(1), more.two_areas(1)

    learner(HOLES.replace("return math.pi * r**2", "return math.pi * 50"))
    more_holes = USES_SHAPES.replace("return 2 * area(r) / math.pi", "...  # your code here")
    put_lab(tmp_path, monkeypatch, "more", more_holes, USES_SHAPES)
    more = lab("more")
    assert capsys.readouterr().out == "labs/more.py, quadruple: yours · two_areas: ours\n"
    assert launch(call_both, more, world_size=2).values == [(4, 100)] * 2
    learner(HOLES.replace("...  # your code here", "return 5 * x", 1))
    assert more.quadruple(1) == 25
    assert more.two_areas(1) == 2
    assert launch(lambda: call_both(more), world_size=2).values == [(25, 2)] * 2


def test_a_lab_whose_sibling_is_broken_says_so(learner, tmp_path, monkeypatch, capsys):
    learner(SOLUTION.replace("def double(x):", "def double(x)"))
    put_lab(tmp_path, monkeypatch, "more", USES_SHAPES, USES_SHAPES)
    assert lab("more").quadruple(1) == 4
    assert "./labs/shapes.py:10: SyntaxError" in capsys.readouterr().out
    learner(SOLUTION)
    assert repr(lab("more")) == "labs/more.py, all 2 functions: yours"


def test_a_sibling_with_a_hole_and_no_solution(learner, tmp_path, monkeypatch):
    learner(HOLES, solution=None)
    put_lab(tmp_path, monkeypatch, "more", USES_SHAPES, None)
    with pytest.raises(module.NotSolvedYet, match=r"exercise 7\.1 comes first"):
        lab("more").quadruple(1)


WRONG = SOLUTION.replace("return 2 * x", "raise ValueError('half written')")


@pytest.mark.parametrize("ours", ["double", ["double"], ["double", "both"]])
def test_ours_is_put_back_for_what_is_half_written(ours, learner, capsys):
    learner(WRONG)
    shapes = lab("shapes", ours=ours)
    assert "double: ours · area: yours" in capsys.readouterr().out
    assert shapes.both(3) == 60
    assert launch(shapes.both, 3, world_size=2).values == [60, 60]
    learner(WRONG.replace("return 10 * x", "return 100 * x"))
    assert shapes.both(3) == 600
    with pytest.raises(ValueError, match="half written"):
        lab("shapes").both(3)


def test_ours_is_put_back_in_what_a_lab_imports(learner, tmp_path, monkeypatch):
    learner(WRONG)
    user = "from shapes import double\n\n\ndef use(x):\n    return double(x)\n"
    put_lab(tmp_path, monkeypatch, "user", user)
    assert lab("user", ours="double").use(4) == 8
    with pytest.raises(ValueError, match="half written"):
        lab("user").use(4)


def test_one_list_of_ours_does_for_several_labs(learner, tmp_path, monkeypatch, capsys):
    learner(WRONG)
    other = 'def halve(x):\n    """Exercise 9.9. Half of it."""\n    return x / 2\n'
    put_lab(tmp_path, monkeypatch, "other", other, solution=other)
    both = ["double", "halve"]
    assert lab("other", ours=both).halve(4) == 2
    assert "as you asked, the solution's: halve\n" in capsys.readouterr().out
    assert lab("shapes", ours=both).both(3) == 60


def test_a_function_that_cannot_be_put_back_is_told(learner):
    learner(SOLUTION)
    said = "ours='helper': there is no such function .* in labs/shapes.py .*: area, both, double$"
    with pytest.raises(ValueError, match=said):
        lab("shapes", ours="helper")


def test_without_a_solution_there_is_nothing_to_put_back(learner):
    learner(WRONG, solution=None)
    with pytest.raises(ValueError, match="this copy of the course has no solutions"):
        lab("shapes", ours="double")


def test_without_a_solution_a_file_that_is_no_python_says_so_alone(learner):
    learner("def area(:\n", solution=None)
    assert repr(lab("shapes")).endswith("Your file cannot be read until this is fixed.")


def test_a_lab_without_exercises(learner, capsys):
    learner("x = 1\n", None)
    shapes = lab("shapes")
    assert shapes.x == 1
    assert capsys.readouterr().out == ""
    assert repr(shapes) == "labs/shapes.py: without exercises"


def test_a_lab_is_taken_though_nothing_can_be_printed():
    program = "import sys; from pedagogy_lib import lab; lab('zero'); sys.stderr.write('taken')"
    command = ["sh", "-c", f'"{sys.executable}" -c "{program}" >&-']
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.stderr == "taken"


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
            "./labs/shapes.py:10: SyntaxError: expected ':'\n    def double(x)\n",
        ),
        (
            SOLUTION.replace("return 2 * x", "\treturn 2 * x"),
            "./labs/shapes.py:12: IndentationError: ",
        ),
        (
            SOLUTION + "\nanswer = area(undefined)\n",
            "./labs/shapes.py:24: NameError: name 'undefined' is not defined\n"
            "    answer = area(undefined)\n",
        ),
        (
            SOLUTION.replace("import math", "import no_such_module"),
            "./labs/shapes.py:3: ModuleNotFoundError: No module named 'no_such_module'\n",
        ),
        (
            SOLUTION + "\nimport sys\nsys.exit()\n",
            "./labs/shapes.py:25: SystemExit\n    sys.exit()\n",
        ),
        (SOLUTION + "\nraise SystemExit(2)\n", "./labs/shapes.py:24: SystemExit: 2\n"),
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
    with pytest.raises(LaunchError, match=r"shapes.py:12, in double\(\):  return 2 / 0"):
        launch(lambda: shapes.double(1), world_size=2)


def test_without_solutions_a_hole_says_which_exercise_comes_first(learner, capsys):
    learner(HOLES, solution=None)
    shapes = lab("shapes")
    assert (
        capsys.readouterr().out
        == "labs/shapes.py, double: unwritten · area: yours · both: unwritten\n"
    )
    assert shapes.area(0) == 0
    sentence = "exercise 7.1 comes first: double in labs/shapes.py still has its hole"
    with pytest.raises(module.NotSolvedYet, match=sentence):
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
    assert repr(shapes) == "labs/shapes.py, all 1 functions: ours"
    assert shapes.Square().double() == 8
    assert [shape().area() for shape in shapes.SHAPES] == [4, 4]
    assert shapes.SHAPES[0] is shapes.Shape


def test_what_derives_from_a_hole_that_nobody_has_filled(learner):
    learner(CLASSES_WITH_HOLE, solution=None)
    for shape in ("Shape", "Square"):
        with pytest.raises(module.NotSolvedYet, match=r"exercise 7\.1 comes first: Shape in labs"):
            getattr(lab("shapes"), shape)()


@pytest.mark.parametrize("shape", ["Shape", "Square"])
def test_whatever_is_asked_of_a_class_with_a_hole_is_refused(shape, learner):
    learner(CLASSES_WITH_HOLE, solution=None)
    found = getattr(lab("shapes"), shape)
    sentence = r"exercise 7\.1 comes first: Shape in labs/shapes.py still has its hole"
    with pytest.raises(module.NotSolvedYet, match=sentence):
        found.apply(1)
    with pytest.raises(LaunchError, match=sentence):
        launch(lambda shapes: getattr(shapes, shape).apply(1), lab("shapes"), world_size=1)
    assert not hasattr(found, "__wrapped__")  # Python itself asks for such names


def test_names_that_are_not_there(learner):
    learner(HOLES)
    for name in ("circles", "../shapes", "", None, ["shapes"], "s" * 5000):
        with pytest.raises(LaunchError, match=r"there is no lab .*; there are: shapes"):
            lab(name)
    with pytest.raises(LaunchError, match="ours is a name, or a list of names, not 3"):
        lab("shapes", ours=3)
    with pytest.raises(AttributeError, match=r"labs/shapes.py has no 'triple'"):
        lab("shapes").triple  # noqa: B018


def test_notebooks_of_the_solutions_take_solved_labs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT / "solutions")
    lab("collectives")
    assert "yours" in capsys.readouterr().out
    monkeypatch.chdir(ROOT / "notebooks")
    assert labs.find_lab("collectives")._path == ROOT / "labs" / "collectives.py"


@repeat_for_each("source", build.lab_sources())
def test_built_labs_have_holes_exactly_where_there_are_exercises(source):
    tree = snapshot.parse(ROOT / "labs" / source.name)
    found = {node.name for node in holes.functions_in(tree) if holes.is_hole(node)}
    assert found == set(holes.numbers_in(tree))
    assert not holes.is_hole(snapshot.parse(source))


def test_a_lab_is_not_a_module_that_ranks_cannot_import(learner):
    learner(SOLUTION)
    area = lab("shapes").area
    assert launch(lambda: area(torch.tensor(1.0)).item(), world_size=2).values[0] > 3.14


# What ranks do with a lab


IN_A_RANK = "\nimport os\nif os.environ.get('PEDAGOGY_RANK') == '1':\n    "


def run_double(shapes):
    return shapes.double(1)


@pytest.mark.parametrize(
    ("statement", "raised"),
    [
        ("raise ValueError('only here')", "ValueError: only here"),
        ("raise AttributeError('only here')", "RuntimeError: AttributeError: only here"),
        ("os.no_such_name", "RuntimeError: AttributeError: module 'os' has no attribute"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit('only here')", "SystemExit: only here"),
    ],
)
def test_a_lab_that_fails_only_in_a_rank_ends_the_launch(statement, raised, learner):
    learner(SOLUTION + IN_A_RANK + statement + "\n")
    shapes = lab("shapes")
    assert shapes.double(1) == 2
    message = str(failure(run_double, shapes, world_size=3))
    assert message.startswith(f"rank 1 raised {raised}")
    assert f"labs/shapes.py:26, in <module>():  {statement}" in message
    assert launch(lambda: 1, world_size=1).values == [1]


@pytest.mark.parametrize("use", ["import shapes", "from shapes import double"])
def test_a_sibling_that_fails_only_in_a_rank_ends_the_launch(use, learner, tmp_path, monkeypatch):
    learner(SOLUTION + IN_A_RANK + "raise AttributeError('only here')\n")
    text = f"{use}\n\ndef quadruple(x):\n    return 2 * {use.split()[-1]}"
    text += "(x)\n" if use.startswith("from") else ".double(x)\n"
    put_lab(tmp_path, monkeypatch, "more", text)
    more = lab("more")
    assert more.quadruple(1) == 4
    error = failure(lambda: more.quadruple(1), world_size=2)
    assert (error.rank, error.place.line) == (1, 26)
    assert error.place.source() == "raise AttributeError('only here')"


def test_a_rank_uses_ours_where_the_notebook_had_to(learner, capsys):
    text = SOLUTION.replace("return 2 * x", "return 200 * x")
    learner(text + "\nimport os\nassert 'PEDAGOGY_RANK' in os.environ\n")
    shapes = lab("shapes")
    assert "shapes.py:25: AssertionError" in capsys.readouterr().out
    assert shapes.double(1) == 2
    assert launch(run_double, shapes, world_size=2).values == [2, 2]


def edit_solution(text=SOLUTION, factor=300):
    return text.replace("return 2 * x", f"return {factor} * x")


def test_a_save_during_a_launch_counts_at_the_next(learner):
    path = learner(SOLUTION)
    shapes = lab("shapes")

    def save_and_use(text):
        if dist.get_rank() == 1:
            path.write_text(text)
        dist.barrier()
        return shapes.double(1)

    assert launch(save_and_use, edit_solution(), world_size=3).values == [2, 2, 2]
    assert launch(save_and_use, edit_solution(), world_size=3).values == [300, 300, 300]


def test_an_error_shows_the_line_that_ran_and_not_what_was_saved_since(learner):
    path = learner(SOLUTION.replace("return 2 * x", "return x / 0"))
    shapes = lab("shapes")

    def save_and_use(text):
        path.write_text(text)
        shapes.double(1)

    error = failure(save_and_use, "# other lines\n" * 30, world_size=1)
    assert error.place.source() == "return x / 0"
    assert "labs/shapes.py:12, in double():  return x / 0" in str(error)


class Save:
    """An argument that saves a file while it is packed."""

    def __init__(self, path, *texts):
        self.path, self.texts = path, list(texts)

    def __reduce__(self):
        if self.texts:
            self.path.write_text(self.texts.pop(0))
        return str, ()


def use_both(more, save, shapes):
    return more.quadruple(1), shapes.double(1)


def test_labs_that_share_a_file_get_one_version_of_it(learner, tmp_path, monkeypatch):
    path = learner(SOLUTION)
    put_lab(tmp_path, monkeypatch, "more", USES_SHAPES)
    more, shapes = lab("more"), lab("shapes")
    run = launch(use_both, more, Save(path, edit_solution()), shapes, world_size=2)
    assert run.values == [(90_000, 300)] * 2


def test_a_file_that_is_saved_all_the_time_is_told(learner, tmp_path, monkeypatch):
    path = learner(SOLUTION)
    put_lab(tmp_path, monkeypatch, "more", USES_SHAPES)
    more, shapes = lab("more"), lab("shapes")
    save = Save(path, *(edit_solution(factor=10**digits) for digits in range(20)))
    with pytest.raises(LaunchError, match=r"^a lab is being saved all the time: launch when that"):
        launch(use_both, more, save, shapes, world_size=2)
    save.texts = []
    assert launch(use_both, more, save, shapes, world_size=2).values == [(10_000**2, 10_000)] * 2


# A file that is being saved, or that has gone


@parametrize("begun", [SOLUTION[:200], "", None], quick=1, ids=["too short", "empty", "absent"])
def test_a_file_that_an_editor_is_writing_is_read_when_it_is_whole(begun, learner, monkeypatch):
    path = learner(SOLUTION)
    shapes = lab("shapes")
    path.unlink()
    if begun is not None:
        path.write_text(begun)

    def go_on(seconds):
        path.write_text(edit_solution())
        os.utime(path, (1, 1))  # so that it counts as settled

    clock = SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=go_on)
    monkeypatch.setattr(snapshot, "time", clock)
    monkeypatch.setattr(snapshot, "SETTLED_SECONDS", 60.0)
    assert shapes.double(1) == 300


def test_a_file_from_the_future_is_not_waited_for(learner):
    path = learner(edit_solution())
    os.utime(path, (time.time() + 10_000,) * 2)
    began = time.perf_counter()
    assert lab("shapes").double(1) == 300
    assert time.perf_counter() - began < snapshot.MOST_SECONDS


@pytest.mark.parametrize("gone", [Path.unlink, lambda path: (path.unlink(), path.mkdir())])
def test_a_file_that_has_gone_is_told_and_blocks_nothing(gone, learner, capsys, monkeypatch):
    monkeypatch.setattr(snapshot, "MOST_SECONDS", 0.1)
    path = learner(edit_solution())
    shapes = lab("shapes")
    gone(path)
    capsys.readouterr()
    assert launch(run_double, shapes, world_size=2).values == [2, 2]
    out = capsys.readouterr().out
    assert out.startswith("labs/shapes.py: ")
    assert "Error: [Errno " in out
    assert out.endswith("Until then:\nlabs/shapes.py, all 3 functions: ours\n")


def test_labs_that_import_each_other_are_told(learner, tmp_path, monkeypatch, capsys):
    learner("from more import quadruple\n" + SOLUTION)
    put_lab(tmp_path, monkeypatch, "more", USES_SHAPES)
    assert lab("shapes").double(1) == 2
    told = (
        "./labs/shapes.py:1: ImportError: labs/more.py has no 'quadruple': "
        "./labs/more.py:2: ImportError: shapes.py and more.py import each other, so neither can "
        "be first: "
    )
    assert told in capsys.readouterr().out


def test_a_name_that_a_sibling_has_not_is_told(learner, tmp_path, monkeypatch, capsys):
    learner(SOLUTION)
    put_lab(tmp_path, monkeypatch, "more", "from shapes import triple\n" + USES_SHAPES)
    lab("more")
    said = "./labs/more.py:1: ImportError: labs/shapes.py has no 'triple'\n"
    assert said in capsys.readouterr().out


def test_two_labs_that_import_a_third_get_the_same(learner, tmp_path, monkeypatch):
    """Else `isinstance` says no to an object that the other one has made."""
    makes = "from third import A\ndef make():\n    return A()\n"
    asks = "from third import A\ndef is_a(x):\n    return isinstance(x, A)\n"
    both = "from left import make\nfrom right import is_a\ndef both():\n    return is_a(make())\n"
    learner(both, None)
    for name, text in {"third": "class A:\n    pass\n", "left": makes, "right": asks}.items():
        put_lab(tmp_path, monkeypatch, name, text, None)
    shapes = lab("shapes")
    assert shapes.both()
    assert launch(shapes.both, world_size=2, device="cpu").values == [True, True]


def test_everything_may_be_imported_from_a_sibling(learner, tmp_path, monkeypatch, capsys):
    learner(edit_solution())
    put_lab(tmp_path, monkeypatch, "more", "from shapes import *\n\nsix = double(3)\n")
    more = lab("more")
    assert more.six == 900
    assert launch(lambda: (more.six, more.double(1)), world_size=1).values == [(900, 300)]


def test_a_lab_may_import_in_a_function_what_imports_it(learner, tmp_path, monkeypatch, capsys):
    learner(SOLUTION + "\n\ndef eight(x):\n    from more import quadruple\n\n"
            "    return 2 * quadruple(x)\n")  # fmt: skip
    put_lab(tmp_path, monkeypatch, "more", USES_SHAPES)
    shapes = lab("shapes")
    assert shapes.eight(1) == 8
    assert launch(lambda: shapes.eight(1), world_size=2).values == [8, 8]


def test_a_solution_that_is_no_python_is_told_and_blocks_nothing(learner, capsys):
    learner(HOLES, SOLUTION + "\ndef (:\n")
    shapes = lab("shapes")
    assert capsys.readouterr().out == (
        "./solutions/labs/shapes.py:24: SyntaxError: invalid syntax\n    def (:\n"
        "The solution cannot be read until this is fixed. Until then:\n"
        "labs/shapes.py, double: unwritten · area: yours · both: unwritten\n"
    )
    assert launch(lambda: shapes.area(0), world_size=2).values == [0, 0]


def test_a_solved_lab_that_was_broken_is_told(learner, tmp_path, capsys):
    learner("", SOLUTION.replace("return 2 * x", "return 2 *"))
    path = tmp_path / "solutions" / "labs" / "shapes.py"
    shapes = labs.Lab("shapes", path, path)
    said = "./solutions/labs/shapes.py:12: SyntaxError: invalid syntax\n    return 2 *\nYour file"
    assert said in repr(shapes)


def test_a_lab_is_not_changed_from_outside(learner):
    learner(SOLUTION)
    shapes = lab("shapes")
    with pytest.raises(AttributeError, match=r"a lab is changed in its file, labs/shapes\.py: dou"):
        shapes.double = abs
    assert shapes.double(-1) == -2


def test_a_lab_that_hangs_in_ranks_is_told_with_its_line(learner):
    learner(SOLUTION + "\nimport os\nwhile 'PEDAGOGY_RANK' in os.environ:\n    pass\n")
    error = failure(run_double, lab("shapes"), world_size=2, timeout=2)
    assert "labs/shapes.py:2" in str(error)
    assert {place.source() for place in error.waits.values()} <= {
        "while 'PEDAGOGY_RANK' in os.environ:",
        "pass",
    }


def test_a_lab_that_launches_when_a_rank_reads_it_is_told(learner):
    text = SOLUTION + "\nfrom pedagogy_lib import launch\nlaunch(double, 3, world_size=1)\n"
    learner(text)
    message = str(failure(run_double, lab("shapes"), world_size=2))
    assert "launch() was called inside a rank; call it outside of the function\n  at" in message
    assert "labs/shapes.py:25, in <module>():  launch(double, 3, world_size=1)" in message


def test_an_interrupt_while_a_lab_is_read_leaves_it_as_it_was(learner):
    learner(SOLUTION)
    shapes = lab("shapes")
    learner(SOLUTION + "\nraise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        shapes.double(1)
    learner(edit_solution())
    assert launch(run_double, shapes, world_size=2).values == [300, 300]


def test_a_reading_that_was_interrupted_is_done_again(tmp_path, monkeypatch):
    path = tmp_path / "numbers.py"
    path.write_text("def f():\n    return 7\n")
    found = labs.Lab("numbers", path, path)
    assert found.f() == 7
    path.write_text("def f():\n    return 80\n")
    read_now = labs.LabModule

    def raise_interrupt(*args):
        monkeypatch.setattr(labs, "LabModule", read_now)
        raise KeyboardInterrupt

    monkeypatch.setattr(labs, "LabModule", raise_interrupt)
    with pytest.raises(KeyboardInterrupt):
        found.f()
    assert found.f() == 80

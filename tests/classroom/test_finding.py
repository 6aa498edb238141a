"""Answers are found by name, wherever a student has put them; nothing is run."""

import json

import pytest
from class_of_students import files_with
from exercise_names import EX

from classroom.grading import course
from classroom.grading.call_graph import find_called_exercises
from classroom.grading.find_answer import find_in_cells
from classroom.grading.merge_lab import compose, text_of
from classroom.grading.programs import read_program
from classroom.handout.handout_labs import HELD_BACK, lab_text
from coursekit.chapters import exercise_numbers

PART = "work/02d_bytes_of_all.ipynb"
RIGHT = "def sent_bytes(name, n, X):\n    return factor(name) * X / n\n"
HELPER = 'def factor(name):\n    return 2 if name == "all_reduce" else 1\n'


def get_exercise(number):
    return course.list_exercises(exercises=[number])[0]


def notebook(*cells, **more) -> bytes:
    code = [{"cell_type": "code", "source": cell, "metadata": {}, "outputs": [],
             "execution_count": None} for cell in cells]  # fmt: skip
    return json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 4,
                       **more}).encode()  # fmt: skip


def find_in_files(number, **files):
    """The answer in files by name; `part` is the notebook that asks 2.9."""
    named = {PART if name == "part" else name: data for name, data in files.items()}
    return find_in_cells(get_exercise(number), [read_program(n, d) for n, d in named.items()])


def value(answer, name, *args):
    """What an assembled source gives."""
    space = {}
    exec(answer.source, space)
    return space[name](*args)


def test_the_untouched_cell_is_missing_and_a_touched_hole_unfinished():
    files = files_with("02", {})
    assert find_in_files(EX.sent_bytes, part=files[PART]).state == "missing"
    begun = notebook("def sent_bytes(name, n, X):\n    messages = n - 1\n    ...\n")
    answer = find_in_files(EX.sent_bytes, part=begun)
    assert (answer.state, answer.what) == ("unfinished", "its hole is still there")


def test_nothing_of_the_name_says_so_and_names_what_is_nearly_it():
    assert (
        find_in_files(EX.sent_bytes).what == "there is no function sent_bytes in what was handed in"
    )
    assert find_in_files(EX.sent_bytes, part=notebook("def sent_byte(n): return n")).what.endswith(
        "there is sent_byte"
    )


@pytest.mark.parametrize("place", ["part", "scratch.ipynb", "work/02_collectives.ipynb"])
def test_a_helper_in_another_cell_comes_along(place):
    answer = find_in_files(
        EX.sent_bytes, **{place: notebook("import os\nprint(1 / 0)", HELPER, RIGHT)}
    )
    assert value(answer, "sent_bytes", "all_reduce", 2, 10.0) == 10.0
    assert answer.where == f"{PART if place == 'part' else place}, cell 3, line 1"
    assert "import os" not in answer.source and "1 / 0" not in answer.source


def test_it_may_stand_in_a_program_in_percent_format():
    text = f"\ufeff# %% [markdown]\n# words\n\n# %%\n{HELPER}\n# %%\n{RIGHT}".replace("\n", "\r\n")
    answer = find_in_files(EX.sent_bytes, **{"answers.py": text.encode()})
    assert value(answer, "sent_bytes", "x", 2, 10.0) == 5.0
    assert answer.reasons == ["sent_bytes was found in answers.py, line 9"]


def test_what_the_student_has_deleted_comes_from_the_course():
    answer = find_in_files(
        EX.swap, **{"x.py": b"def swap(x):\n    return dist.get_rank(), torch.ones(1)\n"}
    )
    assert "import torch.distributed as dist" in answer.source
    assert "pedagogy_lib" not in answer.source


def test_the_last_complete_definition_counts_and_it_is_told():
    cells = "def sent_bytes(a, b, c):\n    return 1", "def sent_bytes(a, b, c):\n    return 2", \
        "def sent_bytes(a, b, c):\n    ..."  # fmt: skip
    answer = find_in_files(EX.sent_bytes, part=notebook(*cells))
    assert value(answer, "sent_bytes", 0, 0, 0) == 2
    assert answer.reasons == [f"2 definitions of sent_bytes: took {PART}, cell 2, line 1"]


def test_a_helper_is_what_it_was_at_the_cell_and_not_later():
    cells = "scale = 1", "def sent_bytes(a, b, c):\n    return scale", "scale = 7"
    assert value(find_in_files(EX.sent_bytes, part=notebook(*cells)), "sent_bytes", 0, 0, 0) == 1


@pytest.mark.parametrize(
    "cell, wanted",
    [
        ("sent_bytes = lambda name, n, X: 3", 3),
        ("from functools import cache\n@cache\ndef sent_bytes(a, b, c):\n    return 4", 4),
        ("import functools as ft\ndef sent_bytes(a, b, c): return 5\n"
         "sent_bytes = ft.cache(sent_bytes)", 5),
        ("table = {}\ntable['x'] = 6\nfor k in range(3): table[k] = k\n"
         "def sent_bytes(a, b, c):\n    return table['x'] + table[2]", 8),
        ("if True:\n    def sent_bytes(a, b, c):\n        return 9", 9),
        (f"def mine(a, b, c):\n    return 10\ncheck('{EX.sent_bytes}', mine)", 10),
        (f"check('{EX.sent_bytes}', lambda a, b, c: 11)", 11),
        ("from math import floor as down\ndef sent_bytes(a, b, c): return down(12.5)", 12),
        ("%%time\ndef sent_bytes(a, b, c):\n    return 13", 13),
        ("%matplotlib inline\n!pip install x\nfiles = !ls\ndef sent_bytes(a, b, c): return 14\n"
         "sent_bytes?", 14),
        ("await_me = 1\nawait foo()\ndef sent_bytes(a, b, c): return 15", 15),
    ],
)  # fmt: skip
def test_whatever_a_cell_looks_like(cell, wanted):
    assert value(find_in_files(EX.sent_bytes, part=notebook(cell)), "sent_bytes", 0, 0, 0) == wanted


def test_local_names_bring_nothing_along():
    cells = "x = 1 / 0", "def sent_bytes(a, b, c):\n    x = 2\n    return [x for x in [x]]"
    assert value(find_in_files(EX.sent_bytes, part=notebook(*cells)), "sent_bytes", 0, 0, 0) == [2]


def test_the_same_name_of_another_chapter_is_not_taken():
    other = notebook("def sent_bytes(a, b, c):\n    return 1")
    assert (
        find_in_files(EX.sent_bytes, **{"work/09b_one_step_three_axes.ipynb": other}).state
        == "written"
    )
    home = get_exercise(EX.sent_bytes_of_axes).part
    assert find_in_files(EX.sent_bytes, **{f"work/{home}.ipynb": other}).state == "missing"


def test_a_cell_that_is_no_python_costs_itself_alone():
    text = "def broken(:\n    pass\n", RIGHT + HELPER
    program = read_program(PART, notebook(*text))
    assert program.problems == [
        f"{PART}, cell 1, line 1: invalid syntax; what stands there was not read"
    ]
    assert find_in_cells(get_exercise(EX.sent_bytes), [program]).state == "written"


def test_an_answer_that_is_no_python_is_wrong_and_says_where():
    answer = find_in_files(
        EX.sent_bytes, part=notebook("def sent_bytes(name, n, X):\n    return (n\n")
    )
    assert answer.state == "wrong"
    assert "cell 1, line 2: '(' was never closed" in answer.what


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b'{"cells": 3}', b"\xff\xfe\x00", b"[" * 100_000]
)
def test_what_is_no_notebook_is_told(data):
    (problem,) = read_program("a.ipynb", data).problems[-1:]
    assert problem.startswith("a.ipynb is no notebook that can be read")


@pytest.mark.parametrize("text", ["(" * 5000, "x = " + "-" * 200_000 + "1", "a\0b", "9" * 5000])
def test_hostile_source_is_told(text):
    program = read_program("a.py", text.encode())
    assert len(program.problems) == 1 or not program.statements[1:]


def test_old_notebooks_are_read():
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": [
        {"cell_type": "code", "language": "python", "input": ["def sent_bytes(a, b, c):\n",
         "    return 1"], "outputs": [], "metadata": {}}], "metadata": {}}]}  # fmt: skip
    assert (
        value(find_in_files(EX.sent_bytes, part=json.dumps(old).encode()), "sent_bytes", 0, 0, 0)
        == 1
    )


# ---- Labs ----

RING = "def all_reduce_ring(x, group=None):\n    reduce_scatter_ring([x], group)\n"


def lab_of(**files):
    return compose("collectives", [read_program(n, d) for n, d in files.items()])


def test_an_answer_in_a_cell_is_put_into_the_lab():
    holes = files_with("02", {})["labs/collectives.py"]
    cell = notebook("import math\ndef half(x):\n    return math.floor(x)", RING + "    half(1)\n")
    lab = lab_of(**{"labs/collectives.py": holes, "scratch.ipynb": cell})
    assert lab.found["all_reduce_ring"].reasons == [
        "all_reduce_ring was found in scratch.ipynb, cell 2, line 1"
    ]
    text = text_of(lab)
    assert text.index("import math") < text.index("def half") < text.index("half(1)")
    assert text.count("def all_reduce_ring") == 1
    assert lab.found["all_to_all"].state == "missing"


def test_a_lab_of_another_name_counts_and_keeps_its_lines():
    text = files_with("02", {EX.all_reduce_ring: RING})["labs/collectives.py"]
    lab = lab_of(**{"my work/collectives (1).py": text})
    assert lab.found["all_reduce_ring"].where.startswith("my work/collectives (1).py, line ")
    assert text_of(lab) == text.decode()


def test_of_two_copies_the_one_with_more_answers_counts():
    holes = files_with("02", {})["labs/collectives.py"]
    mine = files_with("02", {EX.all_reduce_ring: RING})["labs/collectives.py"]
    lab = lab_of(**{"labs/collectives.py": holes, "labs/collectives.mine-1.txt": mine})
    assert lab.found["all_reduce_ring"].reasons == [
        "2 files are labs/collectives.py: took labs/collectives.mine-1.txt"
    ]


def test_a_lab_that_is_no_python_keeps_its_other_functions():
    text = (
        files_with("02", {EX.all_reduce_ring: RING})["labs/collectives.py"]
        + b"\ndef left(:\n    x\n"
    )
    lab = lab_of(**{"labs/collectives.py": text})
    assert lab.found["all_reduce_ring"].state == "written"
    compile(text_of(lab), "lab", "exec")


def test_what_an_answer_is_built_on_is_read_from_its_calls():
    lab = lab_of(
        **{
            "labs/collectives.py": files_with("02", {EX.all_reduce_ring: RING})[
                "labs/collectives.py"
            ]
        }
    )
    statements = {"collectives": lab.statements}
    ring = lab.found["all_reduce_ring"].statements
    assert find_called_exercises(ring, statements, ("collectives", "all_reduce_ring")) == {
        EX.reduce_scatter_ring
    }
    cell = read_program("a.py", b'c = lab("collectives")\ndef f(x):\n    c.all_to_all(x)\n')
    assert find_called_exercises(cell.statements, statements) == {EX.all_to_all}


def test_solutions_stand_in_only_where_the_teacher_gives_them():
    lab = compose("collectives", [], given=frozenset({EX.reduce_scatter_ring}))
    assert "partial += received" in text_of(lab)
    assert lab.found["reduce_scatter_ring"].state == "missing"
    assert "partial += received" not in text_of(compose("collectives", []))


HELD = [(exercise_numbers()[name], lab) for lab, functions in HELD_BACK.items()
        for name in functions.values()]  # fmt: skip


@pytest.mark.parametrize(("number", "lab"), HELD)
def test_what_a_lab_of_the_course_has_is_no_answer(number, lab):
    """Neither in a copy of the whole course, nor as the hole that a handout has there."""
    if get_exercise(number).lab:
        pytest.skip("an exercise in a lab, by another name")
    name = f"labs/{lab}.py"
    for data in ((course.ROOT / name).read_bytes(), lab_text(lab).encode()):
        assert find_in_files(number, **{name: data}).state == "missing"
        given = (course.ROOT / "notebooks" / f"{get_exercise(number).part}.ipynb").read_bytes()
        answer = find_in_files(number, **{name: data, f"{get_exercise(number).part}.ipynb": given})
        assert (answer.state, answer.what) == ("missing", "it is as it was handed out")


def test_a_students_own_function_in_that_lab_counts():
    mine = RIGHT.replace("messages", "pieces")
    assert (
        find_in_files(EX.sent_bytes, **{"labs/collectives_measured.py": mine.encode()}).state
        == "written"
    )

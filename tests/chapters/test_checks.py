"""`check` and `hint`, whatever the exercise; and that numbers are the same everywhere."""

import ast
import os
import re
from datetime import datetime

import nbformat
import pytest
from answer_files import (
    definition_in,
    exercises_of_kind,
    label_exercise,
    solution_of,
    source_files_of,
)
from each import repeat_for_each
from exercise_names import EX
from helpers import ROOT, put_lab

from coursekit import check_runner
from coursekit.building import build
from coursekit.chapters import FOLDER, exercise_folders
from coursekit.check_runner import find_exercise, module_of
from coursekit.labs import holes, module
from coursekit.outline import outline
from coursekit.protocol import Exercise, Wrong
from pedagogy_lib import LaunchError, check, hint
from pedagogy_lib.basics.errors import WrongInput
from pedagogy_lib.basics.source_lines import where_is

CHAPTERS = [source.stem for source in build.sources() if source.stem[:2] != "00"]


def examine_double(answer):
    for x in (0, 1, 5):
        got = answer(x)
        if got != 2 * x:
            why = "this is the square. " + "Twice x was asked for. " * 5 if got == x * x else ""
            raise Wrong(f"x = {x}", f"it gave {got}, expected {2 * x}", why)
        yield f"x = {x}"


EXERCISES = {
    "55.1": Exercise("double", examine_double, ("Add.", "x + …", "x + x"), number="55.1"),
    "55.2": Exercise("double", examine_double, ("Add.",), lab="shapes", number="55.2"),
    "55.3": Exercise("Counter", examine_double, ("Count.",), lab="counters", number="55.3"),
}


@pytest.fixture(autouse=True)
def two_exercises(monkeypatch):
    exercises_of = check_runner.exercises_of
    monkeypatch.setattr(
        check_runner, "exercises_of", lambda n: EXERCISES if n == "55" else exercises_of(n)
    )
    check_runner._hints_shown.clear()


def test_a_right_answer():
    verdict = check("55.1", lambda x: x + x)
    assert verdict.passed is True
    assert repr(verdict) == "Exercise 55.1 · double\n  ✓ x = 0\n  ✓ x = 1\n  ✓ x = 5\npassed"


def test_a_wrong_answer_ends_at_its_first_wrong_case():
    verdict = check("55.1", lambda x: x * x)
    assert verdict.passed is False
    lines = repr(verdict).splitlines()
    assert lines[:3] == [
        "Exercise 55.1 · double",
        "  ✓ x = 0",
        "  ✗ x = 1: it gave 1, expected 2",
    ]
    assert lines[3].startswith("    → this is the square. Twice")
    assert not [
        line for line in lines[4:-1] if not (line.startswith("      Twice") or "asked" in line)
    ]
    assert lines[-1] == "not yet"
    assert max(map(len, lines)) <= 92


def test_an_answer_that_raises():
    def double(x):
        return 2 / x

    verdict = check("55.1", double)
    assert verdict.passed is False
    assert "it raised ZeroDivisionError: division by zero" in repr(verdict)
    assert "return 2 / x" in repr(verdict)


def test_a_hole_is_not_attempted():
    def double(x): ...  # your code here

    verdict = check("55.1", double)
    assert verdict.passed is None
    assert repr(verdict) == (
        "Exercise 55.1 · double: not attempted yet; write double in its cell, and run that again"
    )


HOLE = 'def double(x):\n    """Exercise 55.2."""\n    ...  # your code here\n'


@pytest.mark.parametrize(
    ("text", "passed", "said"),
    [
        (HOLE, None, "shapes.py:3, and save that file"),
        (HOLE.replace("...", "return x + x"), True, "✓ x = 5"),
        (HOLE.replace("...", "return x"), False, "✗ x = 1: it gave 1, expected 2"),
        (HOLE.replace("...", "return ("), False, "SyntaxError: '(' was never closed"),
    ],
)
@pytest.mark.parametrize("with_solution", [True, False])
def test_an_exercise_in_a_lab(text, passed, said, with_solution, tmp_path, monkeypatch):
    solution = HOLE.replace("...", "return 2 * x") if with_solution else None
    put_lab(tmp_path, monkeypatch, "shapes", text, solution)
    verdict = check("55.2")
    assert verdict.passed is passed
    assert said in repr(verdict)


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        (None, "labs/shapes.py, as saved at 00:07"),  # of today
        (datetime(2024, 2, 29, 14, 2), "labs/shapes.py, as saved at 29 February 2024, 14:02"),
    ],
)
def test_who_may_have_forgotten_to_save_is_told_what_was_read(saved, said, tmp_path, monkeypatch):
    put_lab(tmp_path, monkeypatch, "shapes", HOLE.replace("...", "return x"))
    (file,) = tmp_path.rglob("shapes.py")
    moment = (saved or datetime.now().replace(hour=0, minute=7)).timestamp()
    os.utime(file, (moment, moment))
    assert "saved" not in repr(check("55.2"))
    monkeypatch.setattr(module, "someone_watches", lambda: True)
    assert said in repr(check("55.2"))


COUNTER = '''
class Counter:
    """Exercise 55.3."""

    def __init__(self):
        self.count = 0

    def add(self):
        ### BEGIN SOLUTION
        self.count += 1
        ### END SOLUTION

    def take(self):
        ### BEGIN SOLUTION
        self.count -= 1
        ### END SOLUTION
        return self.count
'''
BEGUN = COUNTER.replace("self.count -= 1", "...  # your code here")


@pytest.mark.parametrize(
    ("text", "solution", "said"),
    [
        (
            build.insert_holes(COUNTER),
            COUNTER,
            "not attempted yet; write Counter at {counters}:9, and save that file",
        ),
        (BEGUN, COUNTER, "partly written; still to write: take, from {counters}:15 on"),
        (BEGUN, None, "still to write: take, from {counters}:15 on"),
        (build.insert_holes(COUNTER), None, "still to write: add, take, from {counters}:9 on"),
    ],
)
def test_a_class_of_which_some_holes_are_filled(text, solution, said, tmp_path, monkeypatch):
    put_lab(tmp_path, monkeypatch, "counters", text, solution)
    verdict = check("55.3")
    assert verdict.passed is None
    told = said.format(counters=where_is(str(tmp_path / "labs" / "counters.py"), 1)[:-2])
    assert repr(verdict) == f"Exercise 55.3 · Counter: {told}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("55.7",), "there is no exercise '55.7'; there are: 55.1, 55.2, 55.3"),
        (("77.1",), "there is no exercise '77.1': checks are there for chapters 0, 1, 2, 3, 4, 5"),
        ((2.8,), 'write the number of an exercise in quotes, as in check("2.10"): without them'),
        ((29,), 'write the number of an exercise in quotes, as in check("2.10"), not 29'),
        ((None,), 'write the number of an exercise in quotes, as in check("2.10"), not None'),
        (("",), "there is no exercise '': checks are there for chapters 0, 1, 2"),
        ((".",), "there is no exercise '.': checks are there for chapters 0, 1, 2"),
        (("*.1",), "there is no exercise '*.1': checks are there for chapters 0, 1, 2"),
        (("55",), "there is no exercise '55'; there are: 55.1, 55.2, 55.3"),
        (("55.1.1",), "there is no exercise '55.1.1'; there are: 55.1, 55.2, 55.3"),
        (("9" * 5000,), "there is no exercise '99"),
        (("55.1",), 'give check() your function: check("55.1", double)'),
        (("55.1", 5), 'give check() your function: check("55.1", double)'),
        (("55.2", max), 'exercise 55.2 is in labs/shapes.py: check("55.2") reads it there'),
    ],
)
def test_bad_calls_get_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as told:
        check(*arguments)
    assert isinstance(told.value, LaunchError), "which shows in a notebook without its frames"
    if len(arguments) == 1 and "give check()" not in sentence:
        with pytest.raises(LaunchError, match=re.escape(sentence)):
            hint(*arguments)


def test_a_number_may_be_written_with_zeros():
    assert find_exercise(" 02.03 ") == find_exercise("2.3")


def test_the_chapters_with_checks_are_those_that_have_exercises():
    found = check_runner.chapters_with_checks()
    assert found == sorted(found, key=int)
    assert found == [str(n) for n in range(100) if check_runner.exercises_of(str(n)) and n != 55]


def test_hints_come_in_steps(capsys):
    for shown in (1, 2, 3, 3):
        hint("55.1")
        lines = capsys.readouterr().out.splitlines()
        assert lines == ["1 of 3: Add.", "2 of 3: x + …", "3 of 3: x + x"][:shown]


# ---- Numbers are the same everywhere --------------------------------------------------------


def stems_of(chapter):
    """A chapter may have several notebooks: 03_data_parallel, 03c_inside_ddp."""
    return [stem for stem in CHAPTERS if stem.startswith(chapter)]


def exercises(chapter):
    return list(check_runner.exercises_of(str(int(chapter))).values())


def test_folders_of_exercises_have_the_names_of_their_functions():
    """`load_exercise` refuses any other; the names differ from each other, too."""
    folders = [folder.name for folder in exercise_folders().values()]
    assert len(set(folders)) == len(folders)
    assert all(map(check_runner.find_exercise, exercise_folders()))


def test_a_copied_exercise_is_refused_until_it_has_the_name_of_its_folder(tmp_path, monkeypatch):
    folders = exercise_folders() | {"2.98": exercise_folders()[EX.tree_seconds].parent / "chain"}
    monkeypatch.setattr(check_runner, "exercise_folders", lambda: folders)
    monkeypatch.setattr(check_runner, "module_of", lambda _: module_of(EX.tree_seconds))
    with pytest.raises(WrongInput, match=r"exercises/chain/check\.py defines tree_seconds"):
        check_runner.load_exercise("2.98")


@pytest.mark.parametrize("chapter", sorted({stem[:2] for stem in CHAPTERS}))
def test_headings_and_checks_agree(chapter):
    headings, checks, number = [], [], r"\d+\.\d+"
    for stem in stems_of(chapter):
        source = build.text_of(build.source_of(stem))
        for cell in build.make_notebook(source, stem).cells:
            headings += re.findall(rf"^### Exercise ({number})", cell.source, re.M)
            if cell.cell_type == "code":
                checks += re.findall(rf'check\("({number})"', cell.source)
    assert headings == checks == [exercise.number for exercise in exercises(chapter)]
    assert headings == [f"{int(chapter)}.{k}" for k in range(1, len(headings) + 1)]


def test_each_exercise_has_a_title_of_its_own():
    titles = [title for part in outline() for title in part.exercises.values()]
    assert all(titles)
    assert len(set(titles)) == len(titles)


@repeat_for_each("source", [*FOLDER.glob("ch*/*.py"), *FOLDER.glob("ch*/exercises/*/check.py")])
def test_sources_know_exercises_by_their_names(source):
    """A number that is written by hand is wrong as soon as an exercise is inserted before it."""
    by_hand = re.findall(r"\b(?:as in|exercises?) (\d+\.\d+)\b", source.read_text(), re.IGNORECASE)
    assert by_hand == []


def test_exercises_in_labs_have_their_numbers_there():
    in_labs = {
        (path.stem, name): number
        for path in (ROOT / "labs").glob("*.py")
        for name, number in holes.numbers_in(ast.parse(path.read_text())).items()
    }
    everything = [e for stem in CHAPTERS if stem[2] == "_" for e in exercises(stem[:2])]
    wanted = {(e.lab, e.name): e.number for e in everything if e.lab}
    assert in_labs == wanted, "run `make build`"


@repeat_for_each("exercise", exercises_of_kind, label_exercise)
def test_every_exercise_has_its_hints(exercise):
    assert 2 <= len(exercise.hints) <= 4


@repeat_for_each("exercise", exercises_of_kind, label_exercise)
def test_every_exercise_has_its_hole(exercise):
    """In the lab or the notebook that learners open, and not in the solution, there is work."""
    assert is_open(exercise, definition_in(learners_texts(exercise), exercise))
    assert not is_open(exercise, solution_of(exercise))


def learners_texts(exercise) -> list[str]:
    """Return the text of the lab, or the code cells of the chapter's notebooks."""
    if exercise.lab:
        return [(ROOT / "labs" / f"{exercise.lab}.py").read_text()]
    stems = [path.stem for path in source_files_of(exercise)]
    notebooks = [nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", 4) for stem in stems]
    return [cell.source for notebook in notebooks for cell in build.code_of(notebook)]


def is_open(exercise, text) -> bool:
    """Return whether a definition has a hole or, of a program with a bug, is not the solution."""
    program = ast.parse(text)
    if check_runner.finds_a_bug(exercise):
        return ast.dump(program) != ast.dump(ast.parse(solution_of(exercise)))
    return holes.is_hole(program)

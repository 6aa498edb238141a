"""Assignments for nbgrader: every exercise has its points and its answer, and no answer is told."""

import ast
import json
import subprocess
import sys
import textwrap
from functools import cache

import nbformat
import needs
import pytest
from exercise_names import EX

from classroom.grading.course import describe_exercise
from classroom.grading.find_answer import find_in_cells
from classroom.grading.programs import read_program
from classroom.handout.answer_search import search
from classroom.handout.false_positives import find_unreviewed_leaks
from classroom.lms import assignment
from classroom.lms.__main__ import main
from classroom.lms.cells import split_cell
from coursekit.building.build import sources
from coursekit.check_runner import exercises_of

CHAPTERS = sorted({path.stem[:2] for path in sources()})
WITH_EXERCISES = [chapter for chapter in CHAPTERS if exercises_of(str(int(chapter)))]
AT_ONCE = ("02", "07")  # the others in `make test-all`
EACH = [one if one in AT_ONCE else pytest.param(one, marks=pytest.mark.deep)
        for one in WITH_EXERCISES]  # fmt: skip
files_of = cache(assignment.files_of)


def cells_of(files):
    """Yield (notebook, cell) of all code."""
    for name, data in files.items():
        if name.endswith(".ipynb"):
            for cell in nbformat.reads(data.decode(), as_version=4).cells:
                if cell.cell_type == "code":
                    yield name, cell


def marks_of(files) -> dict:
    """{grade_id: (notebook, cell)} of the cells that nbgrader knows."""
    found = [(c.metadata.nbgrader.grade_id, (name, c)) for name, c in cells_of(files)
             if "nbgrader" in c.metadata]  # fmt: skip
    folders = [one for one in found if one[0] == "folder"]
    assert len(folders) == len({name for _, (name, _) in folders})
    kept = dict(one for one in found if one[0] != "folder")
    assert len(kept) + len(folders) == len(found)  # nobody has another's mark
    return kept


@pytest.mark.parametrize("chapter", EACH)
def test_every_exercise_has_a_point_and_what_is_no_labs_an_answer(chapter):
    exercises = exercises_of(str(int(chapter))).values()
    files = files_of(chapter)
    marks = marks_of(files)
    graded = {name for name, (_, cell) in marks.items() if cell.metadata.nbgrader.grade}
    assert graded == {f"exercise-{one.number.replace('.', '-')}" for one in exercises}
    for one in exercises:
        notebook, tests = marks[f"exercise-{one.number.replace('.', '-')}"]
        assert tests.metadata.nbgrader.points == 1 and tests.metadata.nbgrader.locked
        assert f'outcome = check("{one.number}"' in tests.source
        if one.lab:
            assert f"labs/{one.lab}.py" in files
        else:
            assert answer_cells(files[notebook], one.name)[-1].metadata.nbgrader.solution


def answer_cells(notebook: bytes, name):
    cells = nbformat.reads(notebook.decode(), as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code" and f"{name}" in {
        getattr(node, "name", "") for node in ast.parse(cell.source).body
    }]  # fmt: skip


@pytest.mark.parametrize("chapter", EACH)
def test_the_code_of_an_assignment_is_that_of_the_course(chapter):
    """Beside the checks, which stand in cells of their own, and the cell about the folder."""
    for name, data in files_of(chapter).items():
        if name.endswith(".ipynb"):
            here = nbformat.reads(data.decode(), as_version=4).cells
            path = assignment.ROOT / "notebooks" / name
            there = nbformat.read(path, as_version=4).cells
            assert statements_in(here, with_checks=False) == statements_in(there)
            code = [cell.source for cell in there if cell.cell_type == "code"]
            nodes = [node for text in code for node in ast.walk(ast.parse(text))]
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            assert "outcome" not in names


def statements_in(cells, with_checks=True) -> list[str]:
    found = []
    for cell in cells:
        marks = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and not marks.get("locked"):
            exercises = {str(number): 1 for number in NUMBERS} if with_checks else {}
            rest, _ = split_cell(cell.source, exercises)
            found += map(ast.unparse, ast.parse(rest).body)
    return found


NUMBERS = [n for chapter in WITH_EXERCISES for n in exercises_of(str(int(chapter)))]


def test_no_answer_is_in_an_assignment():
    assert find_unreviewed_leaks(search(collect_handout_files("02"))) == []


def collect_handout_files(chapter) -> dict[str, bytes]:
    """With the names that they have in a handout, by which found pieces are reviewed."""
    files = files_of(chapter)
    return {n if "/" in n else f"notebooks/{n}": data for n, data in files.items()}


def test_a_cell_is_taken_apart():
    exercises = {EX.reduce_scatter_ring: 1, EX.all_gather_ring: 1}
    rest, checks = split_cell(f'x = 1\ncheck("{EX.reduce_scatter_ring}", x)\ny = 2\n', exercises)
    assert rest == "x = 1\ny = 2" and [one.text for one in checks] == [
        f'check("{EX.reduce_scatter_ring}", x)'
    ]
    rest, checks = split_cell(
        f'display(check("{EX.reduce_scatter_ring}"), check("{EX.all_gather_ring}"))', exercises
    )
    assert rest == "" and [one.number for one in checks] == [
        EX.reduce_scatter_ring,
        EX.all_gather_ring,
    ]
    for source in ('check("9.9", x)', f'print(check("{EX.reduce_scatter_ring}"))', "display(x)"):
        assert split_cell(source, exercises) == (source, [])


def test_an_answer_in_an_assignments_cell_is_found():
    files = files_of("02")
    text = files["02d_bytes_of_all.ipynb"].decode().replace("...  # your code here", "return 1")
    program = read_program("02d_bytes_of_all.ipynb", text.encode())
    found = find_in_cells(describe_exercise(exercises_of("2")[EX.sent_bytes]), [program])
    assert found.state == "written" and "def sent_bytes" in found.source


def test_a_part_is_an_assignment_with_its_own_exercises():
    files = files_of("02b")
    (name,) = [name for name in files if name.endswith(".ipynb")]
    marks = [cell["metadata"].get("nbgrader", {}) for cell in json.loads(files[name])["cells"]]
    graded = [mark["grade_id"] for mark in marks if mark.get("grade")]
    assert name.startswith("02b_") and graded == [
        f"exercise-{number.replace('.', '-')}"
        for number in (EX.tree_seconds, EX.broadcast_tree, EX.reduce_tree)
    ]


def test_the_command_writes_a_course_and_keeps_what_is_there(tmp_path, capsys):
    assert main(["nbgrader", "--chapters", "02", "--into", str(tmp_path)]) == 0
    assert "nbgrader generate_assignment 02_collectives" in capsys.readouterr().out
    source = tmp_path / "source" / "02_collectives"
    notebook = json.loads((source / "02c_the_ring.ipynb").read_text())
    assert notebook["nbformat"] == 4 and (source / "labs" / "collectives.py").exists()
    assert "settle(c, COURSE" in (tmp_path / "nbgrader_config.py").read_text()
    assert main(["nbgrader", "--chapters", "02", "--into", str(tmp_path)]) == 2
    assert "is there already: move it away first" in capsys.readouterr().err


@needs.mark("nbgrader")
def test_a_students_labs_are_kept_wherever_nbgrader_has_its_folders(tmp_path):
    from traitlets.config import Config

    from classroom.lms.nbgrader_settings import settle

    lab = tmp_path / "made" / "02_collectives" / "labs" / "collectives.py"
    lab.parent.mkdir(parents=True)
    lab.write_text("")
    settings = Config(CourseDirectory={"root": str(tmp_path), "source_directory": "made"})
    settle(settings, "/course", "python")
    assert settings.Autograde.exclude_overwriting == {"02_collectives": ["labs/collectives.py"]}


@needs.mark("nbgrader")
def test_nbgrader_may_live_in_a_python_without_the_course():
    program = """
        import sys
        sys.modules.update(dict.fromkeys(["torch", "pedagogy_lib", "classroom.grading"]))
        import classroom.lms.nbgrader_settings
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=assignment.ROOT, check=True
    )


@pytest.mark.parametrize("chapters, said", [("", 'CHAPTERS="02 06"'), ("77", "or part 77")])
def test_a_wrong_chapter_is_told(tmp_path, capsys, chapters, said):
    assert main(["nbgrader", "--chapters", chapters, "--into", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err

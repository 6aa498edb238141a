"""Checks whose truth is a table tell the same as those whose truth is code."""

import ast

import pytest
from answer_files import all_answers, exercises_of_kind
from coursekit.content.ch09_three_dimensions.exercises.shared.meshes import meshes_tried
from handouts import copy_with_original_checks, handout_in, run_checks

from classroom.handout.checks import find_tabled_functions, formula_of, lines_of_formula
from coursekit.chapters import exercise_folders
from coursekit.kit import Formula, RankExercise

FORMULAS = [exercise.number for exercise in exercises_of_kind(Formula)]


@pytest.fixture(scope="module")
def courses(tmp_path_factory):
    """A handout of everything, and the same with the original checks."""
    handout = handout_in(tmp_path_factory.mktemp("all") / "handout")
    return handout, copy_with_original_checks(handout, handout.parent / "original")


@pytest.mark.deep
@pytest.mark.parametrize("number", FORMULAS)
def test_every_answer_is_told_the_same(number, courses):
    answers = [answer for answer in all_answers() if answer.exercise.number == number]
    compiled, original = (run_checks(course, answers) for course in courses)
    assert compiled == original


@pytest.mark.deep
def test_each_solution_is_right_with_tables(courses):
    first = {a.exercise.number: a for a in reversed(all_answers()) if a.kind == "right"}
    answers = [first[number] for number in FORMULAS]
    wrong = [text for text in run_checks(courses[0], answers) if "passed" not in text]
    assert wrong == []


OTHERS = [number for number in exercise_folders() if number not in FORMULAS]


@pytest.mark.deep
@pytest.mark.parametrize("number", OTHERS)
def test_first_answers_to_other_exercises_get_their_verdicts(number, courses):
    """Their checks ask tables, too, and have to find there what they ask for."""
    answers = [answer for answer in all_answers() if answer.exercise.number == number]
    first = [next(a for a in answers if a.kind == kind) for kind in ("right", "wrong")]
    right, wrong = run_checks(courses[0], first)
    assert right.endswith("passed"), right
    assert wrong.endswith("not yet") and "LookupError" not in wrong, wrong


@pytest.mark.parametrize("number", FORMULAS)
def test_a_check_takes_of_a_truth_only_what_is_handed_out(number):
    """In a handout, the truth of a formula is tables, and nothing else that its file defines."""
    folder = exercise_folders()[number]
    truth = folder / "truth.py"
    handed_out = {function.__name__ for function in find_tabled_functions(truth)}
    for line in lines_of_formula(truth, formula_of(truth)):
        handed_out.add(line.partition(" =")[0])
    asked = {
        name.name
        for path in folder.glob("*.py")
        if path.name not in ("truth.py", "answers.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.level, node.module) == (1, "truth")
        for name in node.names
    }
    assert asked <= handed_out


def test_all_meshes_of_exercises_on_ranks_are_in_the_tables():
    tried = [[*mesh.items()] for mesh in meshes_tried()]
    named = [
        (exercise.number, sizes)
        for exercise in exercises_of_kind(RankExercise)
        if exercise.number.startswith("9.")
        for case in exercise.cases
        for sizes in getattr(case, "args", ())
        if isinstance(sizes, dict) and {type(size) for size in sizes.values()} == {int}
    ]
    assert named
    assert [(n, sizes) for n, sizes in named if [*sizes.items()] not in tried] == []

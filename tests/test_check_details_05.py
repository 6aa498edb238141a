"""Chapter 05: what checks show beside a diagnosis, and what their cases can tell apart."""

import itertools

import pytest
from answer_files import FOLDER, Answer, answers_in, defined, program_of, solution_of
from helpers import ROOT, put_lab

from pedagogy_lib import check
from pedagogy_lib.course import checking
from pedagogy_lib.course.checking import find_exercise
from pedagogy_lib.exercises.ch05 import activations

ANSWERS = {
    (answer.exercise.number, answer.words): answer
    for path in FOLDER.glob("ch05/*.py")
    for answer in answers_in(path)
}


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Check a program that answers an exercise of a cell, or of labs/memory.py."""

    def check_program(number, program):
        exercise = find_exercise(number)
        if exercise.lab is None:
            return check(number, defined(Answer(exercise, "", program, program)))
        for name, more in {"language_model": "", "memory": program}.items():
            solved = (ROOT / "solutions" / "labs" / f"{name}.py").read_text()
            put_lab(tmp_path, monkeypatch, name, f"{solved}\n\n{more}", solved)
        return check(number)

    return check_program


def function_of(number, body):
    """The text of a function of a cell that has one line."""
    head = solution_of(find_exercise(number)).partition("\n")[0]
    return f"{head}\n    {body}\n"


# ---- What is shown -----------------------------------------------------------------------------

SYMPTOMS = [  # exercise, phrase of the diagnosis, the symptom that is told with it
    ("5.1", "what else does its state have", "optimizer_state: expected 152 bytes, got 144"),
    ("5.2", "there are two lists to look at", "of which 132,096 are the graph of a forward"),
    ("5.5", "GELU's input, or its output", "for each letter 1,548 numbers, got 1,164"),
    ("5.7", "does not divide it", "expected 10, got 7"),
    ("5.3", "a parameter may have no gradient", "rank 0 raised AttributeError"),
    ("5.4", "had no part in the loss", "rank 0 raised TypeError"),
    ("5.6", "a gradient for each of them", "rank 0 raised RuntimeError"),
]


@pytest.mark.parametrize(
    ("number", "phrase", "symptom"), SYMPTOMS, ids=[number for number, *_ in SYMPTOMS]
)
def test_a_symptom_is_told_with_its_diagnosis(number, phrase, symptom, checked):
    verdict = checked(number, ANSWERS[number, phrase].program)
    assert symptom in verdict.wrong.what, verdict
    assert phrase in verdict.wrong.why, verdict


@pytest.mark.parametrize("number", ["5.5", "5.7"])
def test_what_is_no_number_is_shown(number, checked):
    """Also if it cannot travel from a rank."""
    verdict = checked(number, function_of(number, "yield 1"))
    assert verdict.passed is False
    assert "it gave" in verdict.wrong.what
    assert "<generator object" in verdict.wrong.what
    assert "not a number" in verdict.wrong.what


@pytest.mark.parametrize("number", ["5.1", "5.2", "5.5", "5.7"])
def test_an_error_is_shown_with_its_line(number, checked):
    verdict = checked(number, function_of(number, "return 1 // 0"))
    assert verdict.passed is False
    assert "ZeroDivisionError" in verdict.wrong.what
    assert "return 1 // 0" in verdict.wrong.what


def test_an_endless_loop_is_told(checked, monkeypatch):
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 1.0)
    changes = "# -         take_step()\n# +         while True:\n# +             pass\n"
    verdict = checked("5.4", program_of(find_exercise("5.4"), changes))
    assert "it hangs" in verdict.wrong.what
    assert "An endless loop?" in verdict.wrong.what


# ---- What is measured --------------------------------------------------------------------------


def test_bytes_of_a_known_case(checked):
    """15 weights and 3 biases; Adam keeps two numbers for each, and two counters."""
    verdict = checked("5.1", solution_of(find_exercise("5.1")))
    assert "Adam, after a step: 72 + 72 + 152 bytes" in verdict.lines


@pytest.mark.parametrize(
    "program",
    [
        solution_of(find_exercise("5.2")),
        ANSWERS["5.2", "each graph is freed at once"].program,
    ],
    ids=["without a graph", "each graph is freed at once"],
)
def test_validation_needs_not_a_byte_more_than_training(program, checked):
    for line in checked("5.2", program).lines:
        needed, alone = line.split("up to ")[1].split(" bytes; training alone ")
        assert needed == alone


def test_misconceptions_about_a_block_can_be_told_apart():
    """In the first case each combination comes to another number, and none to the right one."""
    _, context, width, heads, _ = activations.BLOCKS[0]
    groups = [
        activations.off_by_width(width),
        activations.off_in_attention(heads, context),
        activations.OFF_IN_NORMS,
    ]
    numbers = [sum(some) for some in itertools.product(*([0, *g.values()] for g in groups))]
    assert len(set(numbers)) == len(numbers)

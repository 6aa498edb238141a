"""Chapter 05: what checks show beside a diagnosis, and bytes that are known."""

import pytest
from answer_files import FOLDER, Answer, answers_in, defined, solution_of

from pedagogy_lib import check
from pedagogy_lib.course import checking
from pedagogy_lib.course.checking import find_exercise

ANSWERS = {
    (answer.exercise.number, answer.words): answer
    for path in FOLDER.glob("ch05/*.py")
    for answer in answers_in(path)
}


def checked(number, program):
    return check(number, defined(Answer(find_exercise(number), "", "", program)))


@pytest.mark.parametrize(
    ("number", "phrase", "symptom"),
    [
        ("5.1", "what else does its state have", "optimizer_state is 144, expected 152"),
        ("5.2", "there are two lists to look at", "of which 132,096 are the graph of a forward"),
        ("5.5", "GELU's input, or its output", "for each letter 1,548 numbers, got 1,164"),
        ("5.7", "does not divide it", "is 7, expected 10"),
    ],
)
def test_a_symptom_is_told_with_its_diagnosis(number, phrase, symptom):
    wrong = checked(number, ANSWERS[number, phrase].program).wrong
    assert symptom in wrong.what
    assert phrase in wrong.why


@pytest.mark.parametrize(
    ("body", "told"),
    [("return iter([1])", "it gave '<list_iterator"), ("return 1 // 0", "ZeroDivisionError")],
)
def test_what_is_no_number_is_shown(body, told):
    """Also if it cannot travel from a rank."""
    head = solution_of(find_exercise("5.7")).partition("\n")[0]
    assert told in checked("5.7", f"{head}\n    {body}\n").wrong.what


def test_an_endless_loop_is_told(monkeypatch):
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 1.0)
    wrong = checked("5.7", ANSWERS["5.7", "looks for more and more"].program).wrong
    assert "it hangs" in wrong.what
    assert "An endless loop?" in wrong.what


def test_validation_needs_not_a_byte_more_than_training():
    """With one graph at a time, too."""
    verdict = checked("5.2", ANSWERS["5.2", "each graph is freed at once"].program)
    needed = verdict.lines[-1].partition("at most ")[2].partition(";")[0]
    assert needed == "263,696 bytes (263,696), 263,696 bytes (263,696), 339,508 bytes (339,508)"

"""Exercises that ask for a formula: truth and solution pass, each mistake is told as itself."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from answer_files import exercises_of_kind, label_exercise, load_solution

from coursekit.kit import Formula
from coursekit.protocol import Wrong

FORMULAS = exercises_of_kind(Formula)


@pytest.mark.parametrize("exercise", FORMULAS, ids=label_exercise)
def test_the_truth_passes(exercise):
    lines = list(replace(exercise, also=None).examine(exercise.truth))
    assert len(lines) == len(exercise.cases)


@pytest.mark.parametrize("exercise", FORMULAS, ids=label_exercise)
def test_the_solution_passes(exercise):
    """The code between the marks is right; it comes another way than the truth."""
    assert len(list(exercise.examine(load_solution(exercise)))) >= len(exercise.cases)


@pytest.mark.deep
@pytest.mark.parametrize("exercise", FORMULAS, ids=label_exercise)
def test_each_mistake_is_told_as_itself(exercise):
    told = {}
    for sentence, function in exercise.mistakes:
        try:
            list(exercise.examine(function))
        except Wrong as wrong:
            told.setdefault(sentence, []).append(wrong.why)
        else:
            pytest.fail(f"{sentence!r}: this mistake gives the right value in every case")
    assert told == {sentence: [sentence] * len(found) for sentence, found in told.items()}


SQUARES = Formula(
    "share",
    cases={f"x = {x:g}": [(x,)] for x in (0.12345, 0.5, 0.0004)},
    truth=lambda x: x * x,
    mistakes=[("this is the cube", lambda x: x**3)],
    hints=(),
    errors={"division by zero": "nothing is divided"},
)


def make_leaky_answer():
    total = []

    def answer(x):
        total.append(x * x)
        return sum(total)

    return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (make_leaky_answer(), "what an earlier call has left is still in it"),
        (lambda x: 0.12345**2, "it gives the same for all arguments"),
        (lambda x: x * x if x > 0.1 else None, "for other arguments it returns a value"),
        (lambda x: x**3, "this is the cube"),
        (lambda x: 100 * x * x, "this is in percent"),
        (lambda x: x * x / 1e6, "this is in millions"),
        (lambda x: round(x * x, 3), "it seems to be rounded"),
        (lambda x: x * x + 0.001, ""),
        (lambda x: None, "a function without `return` gives None"),
        (lambda x: "many", ""),
        (lambda x: 1 / 0, "nothing is divided"),
    ],
)
def test_mistakes_that_any_formula_may_have(answer, said):
    with pytest.raises(Wrong) as caught:
        list(SQUARES.examine(answer))
    assert caught.value.why.startswith(said)
    assert bool(caught.value.why) == bool(said)


def test_a_mistake_that_raises_in_the_same_places_is_told():
    inverse = Formula(
        "inverse", {"2": [(2,)], "0": [(0,)]}, lambda x: 1 / x if x else 0,
        [("this is half", lambda x: x / 2), ("zero has no inverse", lambda x: 1 / x)], (),
        errors={"division": "something is divided by zero"},
    )  # fmt: skip
    with pytest.raises(Wrong, match="it raised ZeroDivisionError") as caught:
        list(inverse.examine(lambda x: x**-1))
    assert caught.value.why == "zero has no inverse"


def test_what_the_answer_is_given_is_to_stay_as_it_is():
    total = Formula("total", {"two": [([1, 2],)]}, sum, [], ())
    with pytest.raises(Wrong, match="it belongs to the caller"):
        list(total.examine(lambda numbers: numbers.pop() + numbers[0]))


@pytest.mark.parametrize("kind", [float, Fraction, torch.tensor, lambda x: torch.tensor([x])[0]])
def test_a_number_is_one_in_whatever_it_comes(kind):
    assert len(list(SQUARES.examine(lambda x: kind(x * x)))) == 3


def test_a_list_of_numbers_may_be_off_by_a_factor_too():
    both = Formula("both", {"x": [(0.25,), (0.6,)]}, lambda x: [x, x * x], [], ())
    with pytest.raises(Wrong) as caught:
        list(both.examine(lambda x: (100 * x, 100 * x * x)))
    assert caught.value.why.startswith("this is in percent")

"""Every exercise that asks for a formula: its truth passes, and each mistake is told as itself."""

import pytest

from pedagogy_lib.course.checking import Wrong, chapters_with_checks, exercises_of
from pedagogy_lib.exercises.kit import Formula

FORMULAS = [
    exercise
    for chapter in chapters_with_checks()
    for exercise in exercises_of(chapter).values()
    if isinstance(exercise, Formula)
]


@pytest.mark.parametrize("exercise", FORMULAS, ids=lambda exercise: exercise.number)
def test_the_truth_passes(exercise):
    lines = list(exercise.examine(exercise.truth))
    assert len(lines) == len(exercise.cases)


@pytest.mark.parametrize(
    ("exercise", "sentence", "function"),
    [
        pytest.param(exercise, *mistake, id=f"{exercise.number} {number}")
        for exercise in FORMULAS
        for number, mistake in enumerate(exercise.mistakes)
    ],
)
def test_each_mistake_is_told_as_itself(exercise, sentence, function):
    with pytest.raises(Wrong) as caught:
        list(exercise.examine(function))
    assert caught.value.why == sentence

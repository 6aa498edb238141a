"""Details of chapter 00's checks: the cases that a right answer is shown."""

import pytest
from answer_files import all_answers, defined

from pedagogy_lib import check

LINES = {
    "0.1": ["2 nodes with 3 processes: 0 1 2 3 4 5"],
    "0.2": ["4 ranks: the mean of 2.7, -0.6, 6.8, 5.7, on every rank"],
    "0.3": [
        "32 samples, 4 ranks: each rank has its own, in this order",
        "33 samples, 4 ranks: each of them once",
    ],
}


@pytest.mark.parametrize("number", LINES)
def test_the_first_cases(number):
    right = next(answer for answer in all_answers() if answer.exercise.number == number)
    assert check(number, defined(right)).lines[: len(LINES[number])] == LINES[number]

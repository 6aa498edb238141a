"""Details of chapter 00's checks: the cases that a right answer is shown."""

from itertools import combinations
from types import SimpleNamespace

import pytest
from answer_files import all_answers, define_answer
from coursekit.content.ch00_start_here.exercises.mean_over_ranks.cases import NUMBERS
from coursekit.content.ch00_start_here.exercises.mean_over_ranks.truth import mistakes
from exercise_names import EX

from pedagogy_lib import check
from pedagogy_lib.basics.closeness import close

LINES = {
    EX.global_rank: ["2 nodes with 3 processes: 0 1 2 3 4 5"],
    EX.mean_over_ranks: ["4 ranks: the mean of 2.7, -0.6, 6.8, 5.7, on every rank"],
    EX.my_samples: [
        "32 samples, 4 ranks: each rank has its own, in this order",
        "33 samples, 4 ranks: each of them once",
    ],
}


@pytest.mark.parametrize("number", LINES)
def test_the_first_cases(number):
    right = next(answer for answer in all_answers() if answer.exercise.number == number)
    assert check(number, define_answer(right)).lines[: len(LINES[number])] == LINES[number]


@pytest.mark.parametrize("n", [3, 4])
def test_what_reduce_leaves_on_a_rank_is_taken_for_no_mistake(n):
    """Not on the root, dist.reduce may leave the sum of any ranks' numbers, but not of all."""
    given = [
        value for place in range(n) for value in mistakes(SimpleNamespace(n=n), place).values()
    ]
    left = [sum(some) / n for k in range(2, n) for some in combinations(NUMBERS[:n], k)]
    assert not any(close(one, float(value)) for one in left for value in given)

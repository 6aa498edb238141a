"""The equations of an integer program. The truth tries all zeros and ones, one by one.

For larger programs, a solver finds the cheapest solution, and trying all choices has to find the
same.
"""

import numpy as np

from coursekit.protocol import Exercise

from .truth import (
    SOLVED,
    TRIED,
    need_all_choices,
    need_all_edges,
    need_nothing_else,
    need_the_cheapest,
    read_equations,
)


def examine(answer):
    for case, (counts, edges) in TRIED.items():
        matrix, sums, variables = read_equations(answer, case, counts, edges)
        need_all_choices(case, matrix, sums, variables, counts, edges)
        need_all_edges(case, matrix, variables, edges)
        need_nothing_else(case, matrix, sums, variables, counts, edges)
        yield f"{case}: {int(np.prod(counts))} choices, and nothing else"
    chance = np.random.default_rng(10)
    for case, (counts, edges) in SOLVED.items():
        matrix, sums, variables = read_equations(answer, case, counts, edges)
        need_all_choices(case, matrix, sums, variables, counts, edges)
        need_all_edges(case, matrix, variables, edges)
        for _ in range(4):
            need_the_cheapest(case, matrix, sums, variables, counts, edges,
                              chance.integers(-20, 20, len(variables)))  # fmt: skip
        yield f"{case}: as cheap as the cheapest choice"


EXERCISE = Exercise(
    "rules",
    examine,
    lab="operator_shardings",
    hints=(
        "First, for each operator: of its variables exactly one is 1. That is one equation.",
        "For an edge (u, v) and a way i of u: among the pairs with i, how many are 1 if (u, i) is "
        "1? And how many if it is 0?",
        "So their sum equals (u, i); as an equation: their sum minus (u, i) is 0. The same for "
        "each way j of v.",
    ),
)

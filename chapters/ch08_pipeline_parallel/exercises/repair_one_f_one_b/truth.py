"""The right results, and the results of known mistakes."""

from ..one_f_one_b.truth import MISTAKES, ONE_TOO_MANY

ALL_MISTAKES = [
    (
        "the question is asked before the forward: how many micro-batches does the rank keep "
        "after it, if it has exactly as many as it has room for?",
        ONE_TOO_MANY[1],
    ),
    *MISTAKES,
]

"""The share of pairs of plans in the right order. The truth looks at each pair once."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

EXERCISE = Formula(
    "share_in_order",
    cases={
        "predicted 3, 5, 1, 4, 2; measured 4, 9, 2, 1, 8": [
            ([3.0, 5.0, 1.0, 4.0, 2.0], [4.0, 9.0, 2.0, 1.0, 8.0])
        ],
        "three plans": [([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])],
        "all in order": [([3.0, 1.0, 2.0], [6.0, 0.5, 1.0])],
        "none in order": [([1.0, 2.0, 3.0], [3.0, 2.0, 1.0])],
        "five plans": [
            ([5.0, 1.0, 4.0, 2.0, 3.0], [9.0, 2.0, 3.0, 1.0, 8.0]),
        ],
        "two": [([1.0, 2.0], [5.0, 4.0])],
        "one that is far off": [([1.0, 2.0, 3.0, 4.0], [4.0, 1.0, 2.0, 3.0])],
    },
    truth=truth,
    mistakes=MISTAKES,
    hints=(
        "Two loops, or itertools.combinations, go through all pairs.",
        "A pair is in order if the same one of both is smaller, in the predictions and in the "
        "measurements.",
    ),
)  # fmt: skip

"""The cost of choosing by prediction. The truth sorts the plans by their predicted times."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

FOUR = {"a": 2.0, "b": 1.5, "c": 4.0, "d": 3.5}, {"a": 2.2, "b": 4.0, "c": 5.0, "d": 1.7}

EXERCISE = Formula(
    "regret",
    cases={
        "predicted a 2, b 1.5, c 4, d 3.5; measured a 2.2, b 4, c 5, d 1.7": [FOUR],
        "a and b": [({"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 2.0})],
        "the best one is chosen": [({"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0})],
        "in another order": [(FOUR[0], dict(sorted(FOUR[1].items(), reverse=True)))],
        "one plan": [({"a": 9.0}, {"a": 2.0})],
        "far off, and right": [({"a": 10.0, "b": 20.0, "c": 30.0}, {"c": 3.0, "b": 2.0, "a": 1.0})],
    },
    truth=truth,
    mistakes=MISTAKES,
    hints=(
        "Which plan would you run, if you knew the predictions alone? And how long does it take?",
        "Beside it: the shortest of the measured times.",
    ),
)

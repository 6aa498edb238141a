"""The share of a GPU's memory above which a failure is expected. The truth adds up run by run."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

SHARES = [0.35, 0.7, 0.8, 0.85, 0.9, 0.95, 1.05, 1.2, 1.6]

FAILED = [False, False, True, False, True, False, True, True, True]

LIMITS = [0.5, 0.75, 0.82, 0.88, 0.92, 1.0, 1.1]

EXERCISE = Formula(
    "cheapest_limit",
    cases={
        "three runs": [([0.5, 0.9, 1.1], [False, True, True], [0.4, 0.8, 1.05], 10, 1)],
        "both mistakes cost the same": [
            (SHARES, FAILED, LIMITS, 1, 1),
            ([0.5, 0.6, 0.7, 0.8, 1.1], [False, True, False, False, True],
             [0.4, 0.55, 0.65, 0.75, 1.0], 1, 1)],
        "a missed failure costs ten times as much": [(SHARES, FAILED, LIMITS, 10, 1)],
        "a false alarm costs ten times as much": [
            (SHARES, FAILED, LIMITS, 1, 10), (SHARES[2:], FAILED[2:], LIMITS, 1, 10),
            ([0.5, 0.6, 0.7, 0.8], [True, True, True, False], [0.4, 0.55, 0.65, 0.75, 0.9], 1, 7)],
        "runs in any order": [
            ([1.2, 0.7, 0.95, 0.35, 0.8], [True, False, False, False, True], LIMITS, 3, 2)],
        "costs in dollars": [
            (SHARES, FAILED, LIMITS, 52_000.0, 7_500.0),
            (SHARES, FAILED, LIMITS, 7_500.0, 52_000.0)],
        "some of both, or five of one": [
            ([0.75, 0.76, 0.77, 0.78, 0.8, 1.0, 1.2],
             [False, False, False, False, True, False, True], [0.7, 0.9], 3, 1)
        ],
        "limits in any order": [(SHARES, FAILED, [1.0, 0.82, 1.1, 0.75, 0.5], 2, 3)],
        "a share equal to a limit": [([0.6, 0.8, 0.8, 1.0], [False, False, False, True],
                                      [0.7, 0.8, 0.9], 5, 2)],
        "a failure exactly at a limit": [([0.6, 0.8, 1.0], [False, True, True],
                                          [0.5, 0.8, 0.9], 5, 2)],
        "equal costs": [([0.2, 0.9, 1.3], [False, True, True], [0.8, 0.4, 0.6, 1.0], 3, 1)],
        "nothing failed": [([0.2, 0.5, 0.7], [False] * 3, [0.3, 0.6, 0.9, 1.2], 4, 1)],
        "everything failed": [([0.9, 1.1, 1.4], [True] * 3, [0.95, 0.85, 1.0], 1, 4)],
    },
    truth=truth,
    mistakes=MISTAKES,
    asked="a number",
    shape="return one of the limits",
    hints=(
        "For one limit: a run is expected to fail if its share is greater. Compare that with what "
        "happened, run by run.",
        "Two counts: failed, but expected to fit; and fitted, but expected to fail. Each has its "
        "price.",
        "Among limits of equal cost the smallest: compare pairs of cost and limit.",
    ),
)  # fmt: skip

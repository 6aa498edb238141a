"""The newest checkpoint that a fault cannot have reached."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

CASES = {
    "saved every 20 steps, checked every 25": ([0, 20, 40, 60], 25, 75),
    "checked more often than saved": ([0, 10, 20, 30, 40], 4, 44),
    "saved more often than checked": ([0, 5, 10, 15, 20, 25, 30, 35, 40], 20, 40),
    "saved with the last good check": ([0, 10, 20, 30], 10, 30),
    "not in order": ([60, 20, 40, 0], 15, 75),
    "the nearest is newer": ([55, 0, 30], 50, 100),
    "gaps that differ": ([5, 40, 47], 11, 55),
    "the first check after 0": ([0, 10, 20], 30, 30),
    "the last three are kept": ([70, 80, 90], 25, 100),
    "checked in each step": ([0, 8, 16], 1, 17),
}

EXERCISE = Formula(
    "clean_checkpoint",
    lab="silent_corruption",
    cases={case: [call] for case, call in CASES.items()},
    truth=truth,
    unit="",
    asked="the step of a checkpoint",
    shape="return one number, such as 40",
    mistakes=MISTAKES,
    hints=(
        "The check after `found` steps has failed, and all earlier ones have passed. Between which "
        "two steps did the fault come?",
        "The last good check was after found - every steps. What was saved until then is clean.",
        "The largest of the steps in `saved` that are at most found - every.",
    ),
)

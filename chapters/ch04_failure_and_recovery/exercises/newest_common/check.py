"""The newest step at which the states of all ranks are held somewhere."""

from coursekit.kit import Formula

from .cases import wrap_step
from .truth import ALL_MISTAKES, truth_stepped

CASES = {
    "all have the same two steps": [[(0, 8), (0, 9)], [(1, 8), (1, 9)], [(2, 8), (2, 9)]],
    "rank 0 is a step ahead": [[(0, 8), (0, 9)], [(1, 7), (1, 8)], [(2, 7), (2, 8)]],
    "rank 1 died, its states are on rank 2": [
        [(0, 6), (0, 7)], [], [(2, 6), (2, 7), (1, 6), (1, 7)]],
    "rank 1 died, its copy is a step behind": [
        [(0, 6), (0, 7)], [], [(2, 6), (2, 7), (1, 5), (1, 6)]],
    "rank 2 died, its copy is a step behind": [
        [(0, 6), (0, 7)],
        [(1, 6), (1, 7), (2, 5), (2, 6)],
        [],
    ],
    "all have died but one that holds everything": [
        [], [(1, 4), (0, 4), (2, 4), (0, 3), (1, 3), (2, 3)], []],
    "rank 0 knows of a newer step of all but one": [
        [(0, 5), (1, 5), (0, 6), (1, 6)], [(1, 5), (1, 6)], [(2, 5), (0, 5)]],
    "a state of rank 0 is in three places": [
        [(0, 2), (0, 3)], [(1, 2), (0, 3), (1, 3)], [(2, 2), (0, 3)]],
    "the newest step that all have is step 0": [[(0, 0), (0, 1)], [(1, 0), (0, 0)]],
    "steps that are far apart": [[(0, 100), (0, 90)], [(1, 90), (1, 1_000)]],
    "copies alone, each at another rank": [
        [(2, 11), (2, 12)], [(0, 11), (0, 12)], [(1, 11), (1, 12)]],
    "one rank": [[(0, 3), (0, 4)]],
    "four of which two have died": [
        [], [], [(2, 20), (0, 20), (0, 21), (2, 21)], [(3, 20), (1, 20), (3, 21)]],
    "nobody has a state of rank 1": [[(0, 6), (0, 7)], [], [(2, 6), (2, 7)]],
    "no two have the same step": [[(0, 7)], [(1, 8)]],
    "all have just begun": [[], [], []],
}  # fmt: skip


class StepFormula(Formula):
    def examine(self, answer):
        return super().examine(wrap_step(answer))


def describe_difference(call, wanted, got) -> str:
    return f"expected {format_step(wanted)}, got {format_step(got)}"


def format_step(step) -> str:
    return f"{step[0]!r:.60}" if step else "None"


EXERCISE = StepFormula(
    "newest_common",
    lab="memory_copies",
    cases={case: [(held,)] for case, held in CASES.items()},
    truth=truth_stepped,
    mistakes=ALL_MISTAKES,
    errors={
        "empty": "a rank that is new holds nothing, and there may be no step at all: max and min "
        "take default=None",
    },
    differs=describe_difference,
    right=lambda calls, values: format_step(values[0]),
    explain=lambda found, case: (
        "if there is none, the result is None, and no number: 0 is a step"
        if found[case][0] in ([0], [-1]) and not EXERCISE.truth(CASES[case]) else ""
    ),
    hints=(
        "Whose states of step 7 are there? It does not matter where.",
        "Put all (owner, step) into one set. Then step 7 can be had if (0, 7), (1, 7), … are in "
        "it, up to owner n - 1, with n = len(held).",
        "max(…, default=None) over all steps of which that is true.",
    ),
)  # fmt: skip

"""Errors of runs whose group was left out of the fit. The truth looks at one run after another."""

from coursekit.kit import Formula
from coursekit.kit.results import equal

from .cases import X, Y, fit_mean, fit_nearest, fit_slope
from .truth import MISTAKES, truth


def too_many(found, case) -> str:
    """Return the diagnosis of entries for runs without a published y, or of another order."""
    for call, got in zip(EXERCISE.cases[case], found[case]):
        if isinstance(got, list) and len(call[2]) == len(got) > len(EXERCISE.truth(*call)):
            return "runs without a published value have no error: leave them out of the list."
    pairs = [pair for each, calls in EXERCISE.cases.items() for pair in zip(calls, found[each])]
    if all(isinstance(got, list) and None not in got
           and equal(sorted(got), sorted(EXERCISE.truth(*call)))
           for call, got in pairs):  # fmt: skip
        return "the errors stand in the order of the runs."
    return ""


def differs(call, wanted, got):
    if isinstance(got, list) and len(got) != len(wanted):
        stated = sum(y is not None for y in call[2])
        return f"it returned {len(got)} errors for {stated} published runs"
    return ""


EXERCISE = Formula(
    "cross_validate",
    cases={
        "four runs in two groups, seven in three": [
            (fit_mean, [1, 1, 1, 1], [2, 4, None, 6], ["a", "a", "b", "b"]),
            (fit_mean, [1, 2, 1, 3, 2, 4, 5], [3, 8, None, 7, 4, 9, 16],
             ["a", "a", "b", "b", "c", "c", "c"]),
        ],
        "two groups, one after the other": [(fit_slope, X, Y, ["a", "a", "a", "b", "b", "b"])],
        "groups that alternate": [(fit_slope, X, Y, ["b", "a", "c", "b", "a", "c"])],
        "a group of one": [(fit_nearest, X, Y, ["a", "a", "b", "b", "b", "c"])],
        "runs that nobody has published": [
            (fit_nearest, [3, 1, 9, 4, 7, 2, 8], [5.0, None, 8.0, 3.0, None, 7.0, 20.0],
             ["u", "v", "v", "u", "w", "w", "w"])
        ],
        "a group without a published run": [
            (fit_mean, X, [3.0, None, 5.0, None, 9.0, 8.0], ["a", "b", "a", "b", "c", "d"])
        ],
        "equal names, written separately": [
            (fit_slope, X, Y, [f"{size}B" for size in (1, 3, 8, 3, 8, 1)])
        ],
        "the same y in two groups": [
            (fit_slope, X, [2.0, 5.0, 5.0, 9.0, 9.0, 12.0], ["a", "b", "a", "a", "c", "c"]),
        ],
        "groups with numbers for names": [(fit_slope, X, Y[::-1], [2, 0, 1, 1, 0, 2])],
    },
    truth=truth,
    differs=differs,
    mistakes=MISTAKES,
    explain=too_many,
    asked="a list of numbers",
    shape="return a list with an error for each published run",
    errors={
        "NoneType": "y is None where nothing was published: such a run can neither calibrate nor "
        "be tested",
        "'function'": "fit returns a function: call that with the x of one run",
        "object is not callable": "fit returns a function: call that with the x of one run",
        "not callable": "fit returns a function: call that with the x of one run",
        "zip() argument 2": "fit gets as many x as y: leave out the same runs in both",
        "KeyError": "for one of the runs no error was kept: each run has a place of its own, and "
        "equal names are one group",
        "can't multiply sequence": "what fit returns takes the x of one run, and no list",
        "unsupported operand type(s) for -: 'list'": "what fit returns takes the x of one run, and "
        "no list",
        "mean requires": "fit has got no run at all: it needs those of all other groups",
    },
    hints=(
        "For each group: which runs are of other groups and published? fit gets their x and y.",
        "fit returns a function. Call it with the x of each published run of the group.",
        "Put each error where its run stands in the list; at the end leave out what is still None.",
    ),
)  # fmt: skip

"""Errors of runs whose group has calibrated nothing. The truth looks at one run after another."""

import math
from statistics import mean, median

from ..kit import Formula
from ..kit.values import equal

# ---- Ways to calibrate, which the function gets ---


def fit_mean(x, y):
    """Predicts the mean of y, whatever x is."""
    level = mean(y)
    return lambda x: level


def fit_slope(x, y):
    """Predicts a multiple of x: the median of all ratios y / x."""
    slope = median(b / a for a, b in zip(x, y, strict=True))
    return lambda x: slope * x


def fit_nearest(x, y):
    """Predicts the y of the nearest x, of two equally near ones the smaller."""
    pairs = sorted(zip(x, y, strict=True))
    return lambda at: min(pairs, key=lambda pair: abs(pair[0] - at))[1]


# ---- The truth, and what is not ---


def errors(fit, x, y, group, counts, off=lambda found, stated: abs(found / stated - 1)):
    """counts(k, i): whether run k helps to calibrate what predicts run i."""
    told = []
    for i, stated in enumerate(y):
        if stated is not None:
            some = [k for k, known in enumerate(y) if known is not None and counts(k, i)]
            model = fit([x[k] for k in some], [y[k] for k in some])
            told.append(off(model(x[i]), stated))
    return told


def truth(fit, x, y, group):
    return errors(fit, x, y, group, lambda k, i: group[k] != group[i])


def with_all(fit, x, y, group):
    return errors(fit, x, y, group, lambda k, i: True)


def single_rows(fit, x, y, group):
    return errors(fit, x, y, group, lambda k, i: k != i)


def own_group(fit, x, y, group):
    return errors(fit, x, y, group, lambda k, i: group[k] == group[i])


def earlier_alone(fit, x, y, group):
    """Nothing comes before the first group: its own runs are taken."""

    def counts(k, i):
        order = list(dict.fromkeys(group))
        return order.index(group[k]) < order.index(group[i]) or group[i] == order[0]

    return errors(fit, x, y, group, counts)


def neighbours(fit, x, y, group):
    """A group ends where another name comes."""
    number = [0]
    for name, before in zip(group[1:], group):
        number.append(number[-1] + (name != before))
    return errors(fit, x, y, group, lambda k, i: number[k] != number[i])


def of_objects(fit, x, y, group):
    return errors(fit, x, y, group, lambda k, i: group[k] is not group[i])


def one_fit(fit, x, y, group):
    """The fit of the last group predicts all runs."""
    return errors(fit, x, y, group, lambda k, i: group[k] != group[-1])


def mean_of_fits(fit, x, y, group):
    """A fit for each other group; the mean of what they predict."""
    told = []
    for i, stated in enumerate(y):
        if stated is not None:
            names = dict.fromkeys(g for g, of in zip(group, y) if of is not None and g != group[i])
            found = []
            for name in names:
                some = [k for k, known in enumerate(y) if known is not None and group[k] == name]
                found.append(fit([x[k] for k in some], [y[k] for k in some])(x[i]))
            told.append(abs(mean(found) / stated - 1))
    return told


def exchanged(fit, x, y, group):
    return truth(lambda some_x, some_y: fit(some_y, some_x), x, y, group)


def asked_with_y(fit, x, y, group):
    known = [stated for stated in y if stated is not None]
    told = []
    for i, stated in enumerate(known):
        place = [k for k, of in enumerate(y) if of is not None][i]
        some = [k for k, of in enumerate(y) if of is not None and group[k] != group[place]]
        model = fit([x[k] for k in some], [y[k] for k in some])
        told.append(abs(model(stated) / stated - 1))
    return told


def shifted(fit, x, y, group):
    """y without its gaps, and x and group with them."""
    known = [stated for stated in y if stated is not None]
    return truth(fit, x[: len(known)], known, group[: len(known)])


def by_value(fit, x, y, group):
    """Errors kept by their y: of equal ones the last."""
    kept = dict(zip([of for of in y if of is not None], truth(fit, x, y, group)))
    return [kept.get(of) for of in y if of is not None]


def by_first_value(fit, x, y, group):
    """Errors put where their y stands first: the others are not found any more."""
    known = [of for of in y if of is not None]
    told = truth(fit, x, y, group)
    return [told[known.index(of)] for of in known]


def measured_by(off):
    return lambda fit, x, y, group: errors(fit, x, y, group, lambda k, i: group[k] != group[i], off)


def by_group(fit, x, y, group):
    told = truth(fit, x, y, group)
    of = [name for name, stated in zip(group, y) if stated is not None]
    return [error for name in dict.fromkeys(of) for error, its in zip(told, of) if its == name]


def by_sorted_group(fit, x, y, group):
    told = truth(fit, x, y, group)
    of = [name for name, stated in zip(group, y) if stated is not None]
    return [error for name in sorted(set(of)) for error, its in zip(told, of) if its == name]


def with_gaps(value):
    def mistaken(fit, x, y, group):
        told = iter(truth(fit, x, y, group))
        return [value if stated is None else next(told) for stated in y]

    return mistaken


def as_zero(fit, x, y, group):
    """What is not published counts as 0 when an engine is calibrated."""
    filled = [0 if stated is None else stated for stated in y]
    told = errors(fit, x, filled, group, lambda k, i: group[k] != group[i],
                  lambda found, stated: abs(found / stated - 1) if stated else None)  # fmt: skip
    return [error for error in told if error is not None]


def too_many(found, case) -> str:
    """Of entries for runs without a published y, whatever stands there; and of another order."""
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


X, Y = [1, 2, 3, 4, 5, 6], [2.0, 4.5, 5.0, 9.0, 10.5, 12.0]

EXERCISE = Formula(
    "10.12",
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
    mistakes=[
        ("each run is predicted by a fit that has seen it. That is no test: leave its group out.",
         with_all),
        ("this leaves out single runs. The other runs of its group, which are much alike, have "
         "still been seen.", single_rows),
        ("each run is predicted by its own group, and by nothing else. It is the other way round.",
         own_group),
        ("all other groups help to calibrate, those that come later in the list too.",
         earlier_alone),
        ("a group has all runs with its name, wherever they stand in the list: this takes "
         "neighbours alone.", neighbours),
        ("names are equal if == says so: `is` asks whether they are one and the same object.",
         of_objects),
        ("each group needs a fit of its own: here one fit predicts all runs.", one_fit),
        ("all other groups are calibrated together, in one fit: this makes one for each, and takes "
         "the mean of their predictions.", mean_of_fits),
        ("`fit` gets the x first, and then the y.", exchanged),
        ("the prediction is made from the x of a run; its y is what is to be found.", asked_with_y),
        ("leave out the same runs in x, y and group: here the places have shifted.", shifted),
        ("several runs may have the same y: an error belongs to a run, and not to a value.",
         by_value),
        ("several runs may have the same y: an error belongs to a run, and not to a value.",
         by_first_value),
        ("the errors stand in the order of the runs, not group after group.", by_group),
        ("the errors stand in the order of the runs, not group after group.", by_sorted_group),
        ("runs without a published value have no error: leave them out of the list.",
         with_gaps(None)),
        ("runs without a published value have no error, and not the error 0.", with_gaps(0)),
        ("runs without a published value would calibrate as if it were 0: leave them out of the "
         "fit.", as_zero),
        ("an error has no sign here: 10 % too fast and 10 % too slow are the same.",
         measured_by(lambda found, stated: found / stated - 1)),
        ("an error is relative to what was published, not to what was predicted.",
         measured_by(lambda found, stated: abs(stated / found - 1))),
        ("asked is |prediction / y - 1|, which is not the logarithm of the ratio.",
         measured_by(lambda found, stated: abs(math.log(found / stated)))),
        ("asked is |prediction / y - 1|, whichever of the two is larger.",
         measured_by(lambda found, stated: max(found / stated, stated / found) - 1)),
        ("the errors stand in the order of the runs, and are not sorted.",
         lambda *args: sorted(truth(*args))),
        ("these are differences; asked are relative errors.",
         measured_by(lambda found, stated: abs(found - stated))),
        ("these are ratios; asked is how far each ratio is from 1.",
         measured_by(lambda found, stated: found / stated)),
        ("these are squares; asked are the errors themselves.",
         measured_by(lambda found, stated: (found / stated - 1) ** 2)),
        ("these are predictions; asked are their relative errors.",
         measured_by(lambda found, stated: found)),
    ],
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

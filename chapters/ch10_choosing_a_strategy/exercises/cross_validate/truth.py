"""The right results, and the results of known mistakes."""

import math
from statistics import mean


def errors(fit, x, y, group, counts, off=lambda found, stated: abs(found / stated - 1)):
    """Return the errors of all published runs.

    counts  takes k and i, and returns whether run k is in the fit that predicts run i
    off     takes a predicted and a published value, and returns the error
    """
    told = []
    for i, stated in enumerate(y):
        if stated is not None:
            some = [k for k, known in enumerate(y) if known is not None and counts(k, i)]
            model = fit([x[k] for k in some], [y[k] for k in some])
            told.append(off(model(x[i]), stated))
    return told


def truth(fit, x, y, group):
    return errors(fit, x, y, group, lambda k, i: group[k] != group[i])


def fit_all_runs(fit, x, y, group):
    return errors(fit, x, y, group, lambda k, i: True)


def single_rows(fit, x, y, group):
    return errors(fit, x, y, group, lambda k, i: k != i)


def own_group(fit, x, y, group):
    return errors(fit, x, y, group, lambda k, i: group[k] == group[i])


def earlier_alone(fit, x, y, group):
    """Fit only the groups before a run's own; the first group is fitted to its own runs."""

    def counts(k, i):
        order = list(dict.fromkeys(group))
        return order.index(group[k]) < order.index(group[i]) or group[i] == order[0]

    return errors(fit, x, y, group, counts)


def neighbours(fit, x, y, group):
    """Let a group end where the next run has another name."""
    number = [0]
    for name, before in zip(group[1:], group):
        number.append(number[-1] + (name != before))
    return errors(fit, x, y, group, lambda k, i: number[k] != number[i])


def compare_group_identity(fit, x, y, group):
    return errors(fit, x, y, group, lambda k, i: group[k] is not group[i])


def one_fit(fit, x, y, group):
    """Predict all runs with the fit that leaves out the last group."""
    return errors(fit, x, y, group, lambda k, i: group[k] != group[-1])


def mean_of_fits(fit, x, y, group):
    """Fit each other group separately, and take the mean of their predictions."""
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


def swap_x_and_y(fit, x, y, group):
    return truth(lambda some_x, some_y: fit(some_y, some_x), x, y, group)


def predict_from_y(fit, x, y, group):
    known = [stated for stated in y if stated is not None]
    told = []
    for i, stated in enumerate(known):
        place = [k for k, of in enumerate(y) if of is not None][i]
        some = [k for k, of in enumerate(y) if of is not None and group[k] != group[place]]
        model = fit([x[k] for k in some], [y[k] for k in some])
        told.append(abs(model(stated) / stated - 1))
    return told


def drop_gaps(fit, x, y, group):
    """Remove the gaps from y, but not from x and group."""
    known = [stated for stated in y if stated is not None]
    return truth(fit, x[: len(known)], known, group[: len(known)])


def find_error_by_value(fit, x, y, group):
    """Keep errors by their y, so that the last of equal ones counts."""
    kept = dict(zip([of for of in y if of is not None], truth(fit, x, y, group)))
    return [kept.get(of) for of in y if of is not None]


def find_first_error_by_value(fit, x, y, group):
    """Find errors by the first position of their y, so that later equal ones are not found."""
    known = [of for of in y if of is not None]
    told = truth(fit, x, y, group)
    return [told[known.index(of)] for of in known]


def replace_error(off):
    return lambda fit, x, y, group: errors(fit, x, y, group, lambda k, i: group[k] != group[i], off)


def sort_by_group(fit, x, y, group):
    told = truth(fit, x, y, group)
    of = [name for name, stated in zip(group, y) if stated is not None]
    return [error for name in dict.fromkeys(of) for error, its in zip(told, of) if its == name]


def sort_by_group_name(fit, x, y, group):
    told = truth(fit, x, y, group)
    of = [name for name, stated in zip(group, y) if stated is not None]
    return [error for name in sorted(set(of)) for error, its in zip(told, of) if its == name]


def fill_gaps(value):
    def mistaken(fit, x, y, group):
        told = iter(truth(fit, x, y, group))
        return [value if stated is None else next(told) for stated in y]

    return mistaken


def count_gaps_as_zero(fit, x, y, group):
    """Count unpublished values as 0 in the fits."""
    filled = [0 if stated is None else stated for stated in y]
    told = errors(fit, x, filled, group, lambda k, i: group[k] != group[i],
                  lambda found, stated: abs(found / stated - 1) if stated else None)  # fmt: skip
    return [error for error in told if error is not None]


MISTAKES = [
    ("each run is predicted by a fit that has seen it. That is no test: leave its group out.",
     fit_all_runs),
    ("this leaves out single runs. The other runs of its group, which are much alike, have "
     "still been seen.", single_rows),
    ("each run is predicted by its own group, and by nothing else. It is the other way round.",
     own_group),
    ("all other groups help to calibrate, those that come later in the list too.",
     earlier_alone),
    ("a group has all runs with its name, wherever they stand in the list: this takes "
     "neighbours alone.", neighbours),
    ("names are equal if == says so: `is` asks whether they are one and the same object.",
     compare_group_identity),
    ("each group needs a fit of its own: here one fit predicts all runs.", one_fit),
    ("all other groups are calibrated together, in one fit: this makes one for each, and takes "
     "the mean of their predictions.", mean_of_fits),
    ("`fit` gets the x first, and then the y.", swap_x_and_y),
    ("the prediction is made from the x of a run; its y is what is to be found.", predict_from_y),
    ("leave out the same runs in x, y and group: here the places have shifted.", drop_gaps),
    ("several runs may have the same y: an error belongs to a run, and not to a value.",
     find_error_by_value),
    ("several runs may have the same y: an error belongs to a run, and not to a value.",
     find_first_error_by_value),
    ("the errors stand in the order of the runs, not group after group.", sort_by_group),
    ("the errors stand in the order of the runs, not group after group.", sort_by_group_name),
    ("runs without a published value have no error: leave them out of the list.",
     fill_gaps(None)),
    ("runs without a published value have no error, and not the error 0.", fill_gaps(0)),
    ("runs without a published value would calibrate as if it were 0: leave them out of the "
     "fit.", count_gaps_as_zero),
    ("an error has no sign here: 10 % too fast and 10 % too slow are the same.",
     replace_error(lambda found, stated: found / stated - 1)),
    ("an error is relative to what was published, not to what was predicted.",
     replace_error(lambda found, stated: abs(stated / found - 1))),
    ("asked is |prediction / y - 1|, which is not the logarithm of the ratio.",
     replace_error(lambda found, stated: abs(math.log(found / stated)))),
    ("asked is |prediction / y - 1|, whichever of the two is larger.",
     replace_error(lambda found, stated: max(found / stated, stated / found) - 1)),
    ("the errors stand in the order of the runs, and are not sorted.",
     lambda *args: sorted(truth(*args))),
    ("these are differences; asked are relative errors.",
     replace_error(lambda found, stated: abs(found - stated))),
    ("these are ratios; asked is how far each ratio is from 1.",
     replace_error(lambda found, stated: found / stated)),
    ("these are squares; asked are the errors themselves.",
     replace_error(lambda found, stated: (found / stated - 1) ** 2)),
    ("these are predictions; asked are their relative errors.",
     replace_error(lambda found, stated: found)),
]  # fmt: skip

# %% right · one run after another
def cross_validate(fit, x, y, group):
    told = []
    for a, stated, name in zip(x, y, group):
        if stated is None:
            continue
        others = [(p, q) for p, q, its in zip(x, y, group) if its != name and q is not None]
        model = fit([p for p, _ in others], [q for _, q in others])
        told.append(abs(model(a) / stated - 1))
    return told

# %% right · a model for each group, first
def cross_validate(fit, x, y, group):
    import numpy as np
    of = np.array([str(name) for name in group])
    known = np.array([one is not None for one in y])
    xs, ys = np.array(x, float), np.array([0 if one is None else one for one in y], float)
    errors = np.full(len(y), np.nan)
    for name in np.unique(of[known]):
        train, test = known & (of != name), known & (of == name)
        model = fit(list(xs[train]), list(ys[train]))
        errors[test] = [abs(model(one) - two) / two for one, two in zip(xs[test], ys[test])]
    return errors[known].tolist()

# %% wrong · That is no test
# -         others = [k for k in known if group[k] != name]
# +         others = known

# %% wrong · The other runs of its group
def cross_validate(fit, x, y, group):
    known = [k for k, stated in enumerate(y) if stated is not None]
    errors = []
    for i in known:
        others = [k for k in known if k != i]
        model = fit([x[k] for k in others], [y[k] for k in others])
        errors.append(abs(model(x[i]) / y[i] - 1))
    return errors

# %% wrong · in the order of the runs
def cross_validate(fit, x, y, group):
    known = [k for k, stated in enumerate(y) if stated is not None]
    errors = []
    for name in dict.fromkeys(group):
        others = [k for k in known if group[k] != name]
        model = fit([x[k] for k in others], [y[k] for k in others])
        errors += [abs(model(x[k]) / y[k] - 1) for k in known if group[k] == name]
    return errors

# %% wrong · in the order of the runs
def cross_validate(fit, x, y, group):
    known = [k for k, stated in enumerate(y) if stated is not None]
    errors = []
    for name in sorted(set(group)):
        others = [k for k in known if group[k] != name]
        model = fit([x[k] for k in others], [y[k] for k in others])
        errors += [abs(model(x[k]) / y[k] - 1) for k in known if group[k] == name]
    return errors

# %% wrong · can neither calibrate nor be tested
def cross_validate(fit, x, y, group):
    errors = []
    for name in set(group):
        others = [k for k in range(len(y)) if group[k] != name]
        model = fit([x[k] for k in others], [y[k] for k in others])
        errors += [abs(model(x[k]) / y[k] - 1) for k in range(len(y)) if group[k] == name]
    return errors

# %% wrong · an error has no sign here
# -             errors[k] = abs(model(x[k]) / y[k] - 1)
# +             errors[k] = model(x[k]) / y[k] - 1

# %% wrong · relative to what was published
# -             errors[k] = abs(model(x[k]) / y[k] - 1)
# +             errors[k] = abs(y[k] / model(x[k]) - 1)

# %% wrong · call that with the x of one run
def cross_validate(fit, x, y, group):
    known = [k for k, stated in enumerate(y) if stated is not None]
    errors = []
    for i in known:
        others = [k for k in known if group[k] != group[i]]
        found = fit([x[k] for k in others], [y[k] for k in others])
        errors.append(abs(found / y[i] - 1))
    return errors

# %% wrong · leave them out of the list
# -     return [errors[k] for k in known]
# +     return [errors.get(k) for k in range(len(y))]

# %% right · from the last run to the first
def cross_validate(fit, x, y, group):
    told = []
    for k in reversed(range(len(y))):
        if y[k] is not None:
            others = [i for i in reversed(range(len(y)))
                      if y[i] is not None and group[i] != group[k]]
            model = fit([x[i] for i in others], [y[i] for i in others])
            told.insert(0, abs(model(x[k]) - y[k]) / y[k])
    return told

# %% wrong · an error belongs to a run, and not to a value
# -             errors[k] = abs(model(x[k]) / y[k] - 1)
# -     return [errors[k] for k in known]
# +             errors[y[k]] = abs(model(x[k]) / y[k] - 1)
# +     return [errors[y[k]] for k in known]

# %% wrong · here one fit predicts all runs
def cross_validate(fit, x, y, group):
    known = [k for k, stated in enumerate(y) if stated is not None]
    for name in dict.fromkeys(group):
        others = [k for k in known if group[k] != name]
        model = fit([x[k] for k in others], [y[k] for k in others])
    return [abs(model(x[k]) / y[k] - 1) for k in known]

# %% wrong · neighbours alone
from itertools import groupby

def cross_validate(fit, x, y, group):
    told = []
    for _, part in groupby(range(len(y)), key=lambda k: group[k]):
        part = list(part)
        others = [k for k in range(len(y)) if k not in part and y[k] is not None]
        model = fit([x[k] for k in others], [y[k] for k in others])
        told += [abs(model(x[k]) / y[k] - 1) for k in part if y[k] is not None]
    return told

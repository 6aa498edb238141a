# %% given
from dataclasses import asdict, replace

# %% right · a comprehension
def flips(judge, engine, names, factor):
    def words(name):
        x = getattr(engine, name)
        return {judge(replace(engine, **{name: y})) for y in (x / factor, x * factor)}

    return [name for name in names if words(name) != {judge(engine)}]

# %% right · a new engine from all numbers
def flips(judge, engine, names, factor):
    usual, hanging = judge(engine), []
    for name in names:
        for power in (-1, 1):
            numbers = asdict(engine)
            numbers[name] *= factor**power
            if judge(type(engine)(**numbers)) != usual and name not in hanging:
                hanging.append(name)
    return hanging

# %% right · copies with other numbers
def flips(judge, engine, names, factor):
    import copy

    found = []
    for name in names:
        low, high = copy.copy(engine), copy.copy(engine)
        object.__setattr__(low, name, getattr(engine, name) / factor)
        object.__setattr__(high, name, getattr(engine, name) * factor)
        if not judge(low) == judge(engine) == judge(high):
            found.append(name)
    return tuple(found)

# %% wrong · divide, too
# -         changed = [replace(engine, **{name: x}) for x in (number / factor, number * factor)]
# +         changed = [replace(engine, **{name: number * factor})]

# %% wrong · multiply, too
# -         changed = [replace(engine, **{name: x}) for x in (number / factor, number * factor)]
# +         changed = [replace(engine, **{name: number / factor})]

# %% wrong · a name stands once
def flips(judge, engine, names, factor):
    found = []
    for name in names:
        for step in (1 / factor, factor):
            if judge(replace(engine, **{name: getattr(engine, name) * step})) != judge(engine):
                found.append(name)
    return found

# %% wrong · one number at a time: all others stay
def flips(judge, engine, names, factor):
    as_it_is, found = judge(engine), []
    for name in names:
        number = getattr(engine, name)
        words = []
        for x in (number / factor, number * factor):
            engine = replace(engine, **{name: x})
            words.append(judge(engine))
        if any(word != as_it_is for word in words):
            found.append(name)
    return found

# %% wrong · not all of them together
def flips(judge, engine, names, factor):
    low = replace(engine, **{name: getattr(engine, name) / factor for name in names})
    high = replace(engine, **{name: getattr(engine, name) * factor for name in names})
    if judge(low) != judge(engine) or judge(high) != judge(engine):
        return list(names)
    return []

# %% wrong · need not be both
# -         if any(judge(one) != as_it_is for one in changed):
# +         if all(judge(one) != as_it_is for one in changed):

# %% wrong · any other verdict counts
# -         if any(judge(one) != as_it_is for one in changed):
# +         if any(judge(one) == "disagrees" for one in changed):

# %% wrong · the order of `names`
# -     return found
# +     return sorted(found)

# %% wrong · return a list of names
# -     return found
# +     return len(found)

# %% wrong · one and a half times
# -         changed = [replace(engine, **{name: x}) for x in (number / factor, number * factor)]
# +         changed = [replace(engine, **{name: number * (1 + factor)}),
# +                    replace(engine, **{name: number / (1 + factor)})]

# %% wrong · 1 minus its excess
# -         changed = [replace(engine, **{name: x}) for x in (number / factor, number * factor)]
# +         changed = [replace(engine, **{name: x}) for x in (number * (2 - factor), number * factor)]

# %% wrong · dataclasses.replace makes another
def flips(judge, engine, names, factor):
    found = []
    for name in names:
        before = judge(engine)
        setattr(engine, name, getattr(engine, name) * factor)
        if judge(engine) != before:
            found.append(name)
    return found

# %% wrong · not one change with the other
# -         if any(judge(one) != as_it_is for one in changed):
# +         if judge(changed[0]) != judge(changed[1]):

# %% wrong · one and the same object
# -         if any(judge(one) != as_it_is for one in changed):
# +         if any(judge(one) is not as_it_is for one in changed):

# %% wrong · not one in between
# -         changed = [replace(engine, **{name: x}) for x in (number / factor, number * factor)]
# +         steps = [1 / factor + k / 10 * (factor - 1 / factor) for k in range(11)]
# +         changed = [replace(engine, **{name: number * step}) for step in steps]

# %% wrong · compare what judge says of the engines
# -         if any(judge(one) != as_it_is for one in changed):
# +         if any(one != engine for one in changed):

# %% wrong · what an earlier call has left
# - def flips(judge, engine, names, factor) -> list[str]:
# + def flips(judge, engine, names, factor, found=[]) -> list[str]:
# -     as_it_is, found = judge(engine), []
# +     as_it_is = judge(engine)

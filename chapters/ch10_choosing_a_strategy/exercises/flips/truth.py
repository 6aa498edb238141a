"""The right results, and the results of known mistakes."""

from .cases import NAMES, Engine


def change_engine(engine, **new):
    return Engine(**{name: getattr(engine, name) for name in NAMES} | new)


def truth(judge, engine, names, factor):
    verdicts = {
        (name, step): judge(change_engine(engine, **{name: getattr(engine, name) * step}))
        for name in names for step in (1 / factor, factor)
    }  # fmt: skip
    wrong = {name for (name, _), word in verdicts.items() if word != judge(engine)}
    return [name for name in names if name in wrong]


def one_way(step):
    def guess(judge, engine, names, factor):
        return [name for name in names
                if judge(change_engine(engine, **{name: step(getattr(engine, name), factor)}))
                != judge(engine)]  # fmt: skip

    return guess


def both_ways(low, high):
    def guess(judge, engine, names, factor):
        down = one_way(low)(judge, engine, names, factor)
        up = one_way(high)(judge, engine, names, factor)
        return [name for name in names if name in down or name in up]

    return guess


def twice(judge, engine, names, factor):
    found = [
        (name, getattr(engine, name) * step) for name in names for step in (1 / factor, factor)
    ]
    return [name for name, x in found if judge(change_engine(engine, **{name: x})) != judge(engine)]


def accumulate_changes(judge, engine, names, factor):
    found, now = [], engine
    for name in names:
        number = getattr(engine, name)
        words = []
        for step in (1 / factor, factor):
            now = change_engine(now, **{name: number * step})
            words.append(judge(now))
        if any(word != judge(engine) for word in words):
            found.append(name)
    return found


def compare_both_changes(judge, engine, names, factor):
    """Compare the verdicts of the two changed engines with each other."""
    return [name for name in names
            if judge(change_engine(engine, **{name: getattr(engine, name) / factor}))
            != judge(change_engine(engine, **{name: getattr(engine, name) * factor}))]  # fmt: skip


def only_if_both(judge, engine, names, factor):
    return [
        name
        for name in names
        if judge(engine)
        not in [
            judge(change_engine(engine, **{name: getattr(engine, name) * step}))
            for step in (1 / factor, factor)
        ]
    ]


def is_disagreement(judge, engine, names, factor):
    """Search for one word instead of any other verdict."""
    return [name for name in names
            if "disagrees" in [judge(change_engine(engine, **{name: getattr(engine, name) * step}))
                               for step in (1 / factor, factor)]]  # fmt: skip


def try_steps_between(judge, engine, names, factor):
    steps = [1 / factor + k * (factor - 1 / factor) / 10 for k in range(11)]
    return [name for name in names for as_it_is in [judge(engine)]
            if any(judge(change_engine(engine, **{name: getattr(engine, name) * step})) != as_it_is
                   for step in steps)]  # fmt: skip


def first_alone(judge, engine, names, factor):
    return truth(judge, engine, names, factor)[:1]


def sort_by_field(judge, engine, names, factor):
    return [name for name in NAMES if name in truth(judge, engine, names, factor)]


def some_word_stays(judge, engine, names, factor):
    return [
        name
        for name in names
        if judge(engine)
        in [
            judge(change_engine(engine, **{name: getattr(engine, name) * step}))
            for step in (1 / factor, factor)
        ]
    ]


def is_no_agreement(judge, engine, names, factor):
    return [name for name in names
            if {"agrees"} != {judge(change_engine(engine, **{name: getattr(engine, name) * step}))
                              for step in (1 / factor, factor)}]  # fmt: skip


def compare_identity(judge, engine, names, factor):
    as_it_is = judge(engine)
    return [
        name
        for name in names
        if any(
            judge(change_engine(engine, **{name: getattr(engine, name) * step})) is not as_it_is
            for step in (1 / factor, factor)
        )
    ]


def stable(judge, engine, names, factor):
    return [name for name in names if name not in truth(judge, engine, names, factor)]


def all_at_once(judge, engine, names, factor):
    for step in (1 / factor, factor):
        new = {name: getattr(engine, name) * step for name in names}
        if judge(change_engine(engine, **new)) != judge(engine):
            return list(names)
    return []


MISTAKES = [
    ("divide and multiply by the factor itself, not by its square or its root.",
     both_ways(lambda x, factor: x / factor**2, lambda x, factor: x * factor**2)),
    ("divide and multiply by the factor itself, not by its square or its root.",
     both_ways(lambda x, factor: x / factor**0.5, lambda x, factor: x * factor**0.5)),
    ("numbers may be fractions: divide with /, and round nothing.",
     both_ways(lambda x, factor: x // factor, lambda x, factor: x * factor)),
    ("numbers may be fractions: divide with /, and round nothing.",
     both_ways(lambda x, factor: round(x / factor, 1), lambda x, factor: round(x * factor, 1))),
    ("`factor` is given: it is not always 1.5.",
     both_ways(lambda x, factor: x / 1.5, lambda x, factor: x * 1.5)),
    ("each name counts as one that flips the verdict: compare what judge says of the engines, "
     "and not the engines.", lambda judge, engine, names, factor: list(names)),
    ("a name is asked for whose change gives another verdict; these leave it as it is.",
     some_word_stays),
    ("any other verdict counts, and from the start it may be any of the words.",
     is_no_agreement),
    ("words are equal if == says so: `is` asks whether they are one and the same object.",
     compare_identity),
    ("two engines are asked for each name: not one in between.", try_steps_between),
    ("all names are asked, not those up to the first.", first_alone),
    ("the list has the order of `names`.", sort_by_field),
    ("divide, too: a number may be too large, as well as too small.",
     one_way(lambda x, factor: x * factor)),
    ("multiply, too: a number may be too small, as well as too large.",
     one_way(lambda x, factor: x / factor)),
    ("a name stands once in the list, even if both changes flip the verdict.", twice),
    ("one number at a time: all others stay as in the engine that was given.", accumulate_changes),
    ("one number at a time, and not all of them together.", all_at_once),
    ("compare with the verdict of the unchanged engine: not one change with the other.",
     compare_both_changes),
    ("one of both changes is enough: it need not be both.", only_if_both),
    ("any other verdict counts, and from the start it may be any of the words.",
     is_disagreement),
    ("these are the names on which it does not hang.", stable),
    ("the list has the order of `names`.",
     lambda *args: sorted(truth(*args))),
    ("the list has the order of `names`.",
     lambda *args: truth(*args)[::-1]),
    ("`factor` is a factor: multiply and divide by it; add nothing.",
     both_ways(lambda x, factor: x - factor, lambda x, factor: x + factor)),
    ("1.5 means one and a half times: multiply by the factor itself.",
     both_ways(lambda x, factor: x / (1 + factor), lambda x, factor: x * (1 + factor))),
    ("divide by the factor: multiplying by 1 minus its excess gives another number.",
     both_ways(lambda x, factor: x * (2 - factor), lambda x, factor: x * factor)),
]  # fmt: skip

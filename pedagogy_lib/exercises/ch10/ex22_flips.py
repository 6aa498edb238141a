"""On which numbers of an engine a verdict hangs. The truth asks all changes, and then sorts."""

from dataclasses import dataclass, fields

from ..kit import Formula


@dataclass(frozen=True)
class Engine:
    """A small one, for the check: its functions need no more."""

    products: float = 1.0
    inside: float = 0.5
    across: float = 0.5
    exposed: float = 0.3
    launch: float = 2e-3


NAMES = tuple(field.name for field in fields(Engine))


def changed(engine, **new):
    return Engine(**{name: getattr(engine, name) for name in NAMES} | new)


# Judges: functions of an engine.
def of_links(engine):
    return "agrees" if engine.inside > 0.4 else "disagrees"


def of_three(engine):
    ratio = engine.inside / engine.across
    return "cannot be told" if 0.7 < ratio < 1.4 else "agrees" if ratio >= 1.4 else "disagrees"


def of_large(engine):
    return "disagrees" if engine.exposed > 0.4 else "agrees"


def of_narrow(engine):
    """Another verdict on both sides, and the same on both."""
    return "agrees" if abs(engine.products - 1) < 0.1 else "disagrees"


def of_pair(engine):
    """Only both together would change it."""
    return "disagrees" if engine.inside > 0.7 and engine.across > 0.7 else "agrees"


def of_opposite(engine):
    """A change of `launch` flips it only if `inside` is as it was."""
    is_changed = abs(engine.launch - 2e-3) > 1e-4 and abs(engine.inside - 0.5) < 1e-4
    return "disagrees" if is_changed else "agrees"


def of_sum(engine):
    """Changes by which the number grows or falls by a small amount do not count."""
    return "agrees" if 0.2 < engine.exposed < 0.44 and engine.launch < 1 else "disagrees"


def of_large_share(engine):
    return "disagrees" if engine.exposed > 0.6 else "agrees"


def of_middle(engine):
    """Another verdict only between the number and the changed one."""
    return "disagrees" if 1.1 < engine.products < 1.4 else "agrees"


def of_new_words(engine):
    """An equal word, and another object, at each call."""
    return " ".join(["cannot", "be", "told" if engine.launch < 1 else "seen"])


def of_nothing(engine):
    return "cannot be told"


def truth(judge, engine, names, factor):
    verdicts = {
        (name, step): judge(changed(engine, **{name: getattr(engine, name) * step}))
        for name in names for step in (1 / factor, factor)
    }  # fmt: skip
    wrong = {name for (name, _), word in verdicts.items() if word != judge(engine)}
    return [name for name in names if name in wrong]


def one_way(step):
    def guess(judge, engine, names, factor):
        return [name for name in names
                if judge(changed(engine, **{name: step(getattr(engine, name), factor)}))
                != judge(engine)]  # fmt: skip

    return guess


def both_ways(low, high):
    def guess(judge, engine, names, factor):
        down, up = (
            one_way(low)(judge, engine, names, factor),
            one_way(high)(judge, engine, names, factor),
        )
        return [name for name in names if name in down or name in up]

    return guess


def twice(judge, engine, names, factor):
    found = [
        (name, getattr(engine, name) * step) for name in names for step in (1 / factor, factor)
    ]
    return [name for name, x in found if judge(changed(engine, **{name: x})) != judge(engine)]


def piling_up(judge, engine, names, factor):
    found, now = [], engine
    for name in names:
        number = getattr(engine, name)
        words = []
        for step in (1 / factor, factor):
            now = changed(now, **{name: number * step})
            words.append(judge(now))
        if any(word != judge(engine) for word in words):
            found.append(name)
    return found


def against_neighbour(judge, engine, names, factor):
    """Compares the two changed ones with each other."""
    return [name for name in names
            if judge(changed(engine, **{name: getattr(engine, name) / factor}))
            != judge(changed(engine, **{name: getattr(engine, name) * factor}))]  # fmt: skip


def only_if_both(judge, engine, names, factor):
    return [name for name in names
            if judge(engine) not in [judge(changed(engine, **{name: getattr(engine, name) * step}))
                                     for step in (1 / factor, factor)]]  # fmt: skip


def is_disagreement(judge, engine, names, factor):
    """Looks for one word, instead of another one."""
    return [name for name in names
            if "disagrees" in [judge(changed(engine, **{name: getattr(engine, name) * step}))
                               for step in (1 / factor, factor)]]  # fmt: skip


def in_between(judge, engine, names, factor):
    steps = [1 / factor + k * (factor - 1 / factor) / 10 for k in range(11)]
    return [name for name in names for as_it_is in [judge(engine)]
            if any(judge(changed(engine, **{name: getattr(engine, name) * step})) != as_it_is
                   for step in steps)]  # fmt: skip


def first_alone(judge, engine, names, factor):
    return truth(judge, engine, names, factor)[:1]


def in_order_of_fields(judge, engine, names, factor):
    return [name for name in NAMES if name in truth(judge, engine, names, factor)]


def some_word_stays(judge, engine, names, factor):
    return [name for name in names
            if judge(engine) in [judge(changed(engine, **{name: getattr(engine, name) * step}))
                                 for step in (1 / factor, factor)]]  # fmt: skip


def is_no_agreement(judge, engine, names, factor):
    return [name for name in names
            if {"agrees"} != {judge(changed(engine, **{name: getattr(engine, name) * step}))
                              for step in (1 / factor, factor)}]  # fmt: skip


def by_identity(judge, engine, names, factor):
    as_it_is = judge(engine)
    return [name for name in names
            if any(judge(changed(engine, **{name: getattr(engine, name) * step})) is not as_it_is
                   for step in (1 / factor, factor))]  # fmt: skip


def stable(judge, engine, names, factor):
    return [name for name in names if name not in truth(judge, engine, names, factor)]


def all_at_once(judge, engine, names, factor):
    for step in (1 / factor, factor):
        new = {name: getattr(engine, name) * step for name in names}
        if judge(changed(engine, **new)) != judge(engine):
            return list(names)
    return []


EXAMPLE = "the example: inside is to be above 0.4"
HALF = Engine(inside=0.25)
EXERCISE = Formula(
    "10.22",
    "flips",
    lab="advice",
    cases={
        EXAMPLE: [(of_links, Engine(), ("inside", "across"), 1.5)],
        "names in another order": [(of_three, Engine(), ("across", "exposed", "inside"), 1.5)],
        "up alone changes it": [(of_large, Engine(), NAMES, 1.5)],
        "both changes give the same other word": [(of_narrow, Engine(), NAMES, 1.5)],
        "only two together would change it": [(of_pair, Engine(), ("inside", "across"), 1.5)],
        "one at a time": [(of_opposite, Engine(), ("inside", "launch"), 1.5),
                          (of_opposite, Engine(), ("launch", "inside"), 1.5)],
        "another factor": [(of_sum, Engine(), NAMES, 1.3), (of_sum, Engine(), NAMES, 2.0),
                           (of_links, Engine(), NAMES, 1.2),
                           (of_large_share, Engine(), NAMES, 1.3)],
        "another verdict in between": [(of_middle, Engine(), NAMES, 1.5)],
        "the verdict is another one from the start": [
            (of_links, HALF, NAMES, 1.5), (of_links, HALF, NAMES, 1.7),
            (of_three, HALF, NAMES, 1.5), (of_three, HALF, NAMES, 1.3)],
        "a verdict that never changes": [
            (of_nothing, Engine(), NAMES, 3.0), (of_new_words, Engine(), NAMES, 3.0)],
        "no names": [(of_links, Engine(), (), 1.5)],
    },
    truth=truth,
    mistakes=[
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
         by_identity),
        ("two engines are asked for each name: not one in between.", in_between),
        ("all names are asked, not those up to the first.", first_alone),
        ("the list has the order of `names`.", in_order_of_fields),
        ("divide, too: a number may be too large, as well as too small.",
         one_way(lambda x, factor: x * factor)),
        ("multiply, too: a number may be too small, as well as too large.",
         one_way(lambda x, factor: x / factor)),
        ("a name stands once in the list, even if both changes flip the verdict.", twice),
        ("one number at a time: all others stay as in the engine that was given.", piling_up),
        ("one number at a time, and not all of them together.", all_at_once),
        ("compare with the verdict of the unchanged engine: not one change with the other.",
         against_neighbour),
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
    ],
    asked="a list of names",
    shape="return a list of names; an empty one, if the verdict hangs on none",
    errors={"ZeroDivisionError": "numbers may be fractions: divide with /, and round nothing",
            "keyword argument 'name'": "`name` is a variable: the number is called as it says",
            "'dict' object": "judge takes an engine, and no dict",
            "'tuple' object": "names may be a tuple; look at it, and leave it as it is",
            "FrozenInstanceError": "an engine does not change: dataclasses.replace makes another",
            "cannot assign": "an engine does not change: dataclasses.replace makes another"},
    hints=(
        "replace(engine, **{name: number}) is an engine with one other number.",
        "The verdict of the unchanged engine comes first. For each name ask two more.",
    ),
)  # fmt: skip

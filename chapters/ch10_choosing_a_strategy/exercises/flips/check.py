"""On which numbers of an engine a verdict hangs. The truth asks all changes, and then sorts."""

from coursekit.kit import Formula

from .cases import NAMES, Engine
from .truth import MISTAKES, truth


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


EXAMPLE = "the example: inside is to be above 0.4"

HALF = Engine(inside=0.25)

EXERCISE = Formula(
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
    mistakes=MISTAKES,
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

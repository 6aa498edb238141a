"""On which numbers of an engine a verdict hangs. The truth asks all changes, and then sorts."""

from coursekit.kit import Formula

from .cases import (
    NAMES,
    Engine,
    of_large,
    of_large_share,
    of_links,
    of_middle,
    of_narrow,
    of_new_words,
    of_nothing,
    of_opposite,
    of_pair,
    of_sum,
    of_three,
)
from .truth import MISTAKES, truth

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

"""The numbers of an engine that can change a verdict. The truth tries all changes, then sorts."""

from coursekit.kit import Formula

from .cases import (
    NAMES,
    Engine,
    judge_exposed,
    judge_exposed_range,
    judge_large_exposed,
    judge_launch,
    judge_links,
    judge_middle_range,
    judge_narrow_range,
    judge_nothing,
    judge_pair,
    judge_ratio,
    judge_with_new_string,
)
from .truth import MISTAKES, truth

EXAMPLE = "the example: inside is to be above 0.4"

HALF = Engine(inside=0.25)

EXERCISE = Formula(
    "flips",
    lab="advice",
    cases={
        EXAMPLE: [(judge_links, Engine(), ("inside", "across"), 1.5)],
        "names in another order": [(judge_ratio, Engine(), ("across", "exposed", "inside"), 1.5)],
        "up alone changes it": [(judge_exposed, Engine(), NAMES, 1.5)],
        "both changes give the same other word": [(judge_narrow_range, Engine(), NAMES, 1.5)],
        "only two together would change it": [(judge_pair, Engine(), ("inside", "across"), 1.5)],
        "one at a time": [
            (judge_launch, Engine(), ("inside", "launch"), 1.5),
            (judge_launch, Engine(), ("launch", "inside"), 1.5),
        ],
        "another factor": [
            (judge_exposed_range, Engine(), NAMES, 1.3),
            (judge_exposed_range, Engine(), NAMES, 2.0),
            (judge_links, Engine(), NAMES, 1.2),
            (judge_large_exposed, Engine(), NAMES, 1.3),
        ],
        "another verdict in between": [(judge_middle_range, Engine(), NAMES, 1.5)],
        "the verdict is another one from the start": [
            (judge_links, HALF, NAMES, 1.5),
            (judge_links, HALF, NAMES, 1.7),
            (judge_ratio, HALF, NAMES, 1.5),
            (judge_ratio, HALF, NAMES, 1.3),
        ],
        "a verdict that never changes": [
            (judge_nothing, Engine(), NAMES, 3.0),
            (judge_with_new_string, Engine(), NAMES, 3.0),
        ],
        "no names": [(judge_links, Engine(), (), 1.5)],
    },
    truth=truth,
    mistakes=MISTAKES,
    asked="a list of names",
    shape="return a list of names; an empty one, if the verdict hangs on none",
    errors={
        "ZeroDivisionError": "numbers may be fractions: divide with /, and round nothing",
        "keyword argument 'name'": "`name` is a variable: the number is called as it says",
        "'dict' object": "judge takes an engine, and no dict",
        "'tuple' object": "names may be a tuple; look at it, and leave it as it is",
        "FrozenInstanceError": "an engine does not change: dataclasses.replace makes another",
        "cannot assign": "an engine does not change: dataclasses.replace makes another",
    },
    hints=(
        "replace(engine, **{name: number}) is an engine with one other number.",
        "The verdict of the unchanged engine comes first. For each name ask two more.",
    ),
)

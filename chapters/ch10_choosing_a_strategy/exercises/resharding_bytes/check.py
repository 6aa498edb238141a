"""The bytes that a change of layout sends. The truth follows numbered pieces between devices.

An activation of n × n blocks is laid out on n devices; a device is sent what it needs and lacks.
"""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

LAYOUTS = ("whole", "samples", "features")

SIZES = ((800, 4), (1001, 3), (1000, 2), (6400, 8))


def no_whole_bytes(found, case) -> str:
    """Return the diagnosis of answers that are wrong by less than a byte per part, or ""."""
    for each, calls in EXERCISE.cases.items():
        for (nbytes, n, *layouts), got in zip(calls, found[each]):
            wanted = EXERCISE.truth(nbytes, n, *layouts)
            if not isinstance(got, (int, float)):
                return ""
            if abs(got - wanted) > (2 * n if got % 1 == 0 else 1e-6):
                return ""
    return "bytes may be a fraction here: divide with /, and round nothing."


EXERCISE = Formula(
    "resharding_bytes",
    cases={
        f"{before} to {after}": [(nbytes, n, before, after) for nbytes, n in SIZES]
        for before in LAYOUTS
        for after in LAYOUTS
    } | {"one device": [(800, 1, a, b) for a in LAYOUTS for b in LAYOUTS]},
    truth=truth,
    mistakes=MISTAKES,
    explain=no_whole_bytes,
    errors={"ZeroDivisionError": "n may be 1: a single device sends nothing",
            "KeyError": "there are nine pairs of layouts: equal ones, and features, too"},
    shape="return one number: forward and backward together",
    unit=" bytes",
    lab="operator_shardings",
    hints=(
        "Write down what a device has before, and what it needs after. What does it lack?",
        "Then the same for the gradient, with before and after exchanged.",
        "Three kinds of pairs are enough: equal ones, those with whole, and the other two.",
    ),
)  # fmt: skip

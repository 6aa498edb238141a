"""The number of plans for a pipeline: cuts of its layers, and submeshes for its stages.

The truth removes one first stage after another, whatever their number.
"""

from coursekit.kit import Formula

from .truth import MISTAKES, truth


def diagnose_rounding(found, case) -> str:
    """Return the diagnosis of a large count that is rounded, or wrapped around in int64, or ""."""
    ((layers, devices),), (got,) = EXERCISE.cases[case][-1:], found[case][-1:]
    wanted = EXERCISE.truth(layers, devices)
    if not isinstance(got, (int, float)) or wanted < 2**63:
        return ""
    if abs(got - wanted) < 1e-9 * wanted:
        return "right to many digits: a float keeps 16 of them, and a whole number of Python all"
    return WRAPPED if (int(got) - wanted) % 2**32 == 0 else ""


WRAPPED = "the count has 28 digits: a whole number of NumPy ends at 19, one of Python nowhere"

EXERCISE = Formula(
    "ways",
    cases={
        "5 layers, 8 devices": [(5, 8)],
        "2 layers, 2 devices": [(2, 2)],
        "3 layers, 4 devices": [(3, 4)],
        "1 layer": [(1, 8), (1, 6)],
        "6 layers, 6 devices": [(6, 6)],
        "more devices than layers": [(3, 16), (2, 7)],
        "more layers than devices": [(9, 4), (5, 1)],
        "48 layers, 64 devices": [(48, 64)],
    },
    truth=truth,
    mistakes=MISTAKES,
    explain=diagnose_rounding,
    slow="the same rest is counted again and again, or the ways are written down one by one",
    asked="a whole number",
    shape="return one whole number, and neither a text nor a list of the ways",
    whole="ways are whole numbers",
    errors={"OverflowError": WRAPPED,
            "recursion": "the recursion has no end: with no stage left, nothing is to be chosen"},
    hints=(
        "Take the number of stages first. In how many ways can the layers be cut into so many?",
        "Between layers there are layers - 1 places, and s - 1 of them are cuts.",
        "Sequences of s submeshes that use d devices: take the first one away, and count those of "
        "s - 1 for what is left. functools.cache remembers what is counted already.",
    ),
)  # fmt: skip

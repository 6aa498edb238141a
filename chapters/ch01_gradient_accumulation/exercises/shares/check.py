"""The factor with which the mean of each micro-batch counts."""

from coursekit.kit import Formula
from coursekit.kit.results import equal
from pedagogy_lib.basics.closeness import close

from .truth import MISTAKES, effects

SIZES = ([2, 1, 4, 1, 6], [8, 8, 8, 8], [8, 8, 8, 5], [5], [1, 7])

FACTORS = "one factor for each micro-batch: a list"

IN_FLOAT32 = (
    "right to seven digits: a tensor of Python's numbers is float32, and loses the others. Use "
    "Python's numbers, or float64"
)


def same(got, wanted) -> bool:
    """Return whether factors, which multiply float64 losses, are equal up to float64's rounding."""
    if not equal(got, wanted):
        return False
    numbers = got if isinstance(got, list) else [got]
    return close(list(map(float, numbers)), wanted if isinstance(wanted, list) else [wanted])


def differs(call, wanted, got) -> str:
    if len(got) != len(wanted):
        return f"expected {len(wanted)} numbers, got {len(got)}"
    at = next(i for i in range(len(wanted)) if not EXERCISE.same(got[i], wanted[i]))
    return f"the factor of micro-batch {at}: expected {wanted[at]:.10g}, got {got[at]:.10g}"


def other_length_or_float32(found, case) -> str:
    (sizes,) = EXERCISE.cases[case][0]
    if len(found[case][0]) != len(sizes):
        return FACTORS
    return IN_FLOAT32 if equal(found[case][0], EXERCISE.truth(sizes)) else ""


EXERCISE = Formula(
    "shares",
    cases={f"micro-batches of {sizes}": [(sizes,)] for sizes in SIZES},
    truth=effects,
    right=lambda calls, values: f"the mean over all {sum(calls[0][0])}",
    differs=differs,
    shape=FACTORS,
    same=same,
    explain=other_length_or_float32,
    mistakes=MISTAKES,
    hints=(
        "Multiplying a mean by the number of its samples gives back their sum.",
        "Sum those, and divide by the number of all samples: what stands before each mean?",
    ),
)  # fmt: skip

"""The largest micro-batch that fits. The truth tries all of them."""

from coursekit.kit import Formula

from .cases import NOTHING_FITS
from .truth import MISTAKES, truth


def explain(found, case):
    """Return the diagnosis of a negative size, computed from missing room, or ""."""
    return NOTHING_FITS if min(found[case]) < 0 else ""


EXERCISE = Formula(
    "largest_micro_batch",
    cases={
        "room 100, states 40, 10 a sample, 2 stages, 8 samples": [(100, 40, 10, 2, 8)],
        "one stage": [(100, 40, 10, 1, 8), (160, 40, 10, 1, 12)],
        "all samples fit at a time": [(130, 40, 10, 2, 8), (1000, 40, 10, 4, 6)],
        "more stages than micro-batches": [(100, 20, 10, 4, 8), (101, 20, 10, 4, 8)],
        "the states alone do not fit": [(100, 101, 10, 2, 8)],
        "not one sample fits": [(100, 95, 10, 1, 8), (100, 85, 10, 2, 8)],
        "it just fits": [(60, 40, 10, 2, 2), (100, 40, 15, 4, 4)],
        "12 samples": [(100, 40, 10, 2, 12), (101, 40, 10, 1, 12), (91, 40, 10, 1, 15)],
    },
    truth=truth,
    whole="samples are whole numbers",
    mistakes=MISTAKES,
    explain=explain,
    errors={"empty": "where nothing fits, no size is left to choose from: the answer is 0"},
    hints=(
        "Try every size that divides the samples.",
        "How many micro-batches are there of a size? And how many of them are on the first stage "
        "at a time?",
    ),
)  # fmt: skip

"""The parts of a model to recompute under a memory budget, for the fewest FLOPs."""

from coursekit.kit import Formula

from .costs import describe_difference
from .truth import MISTAKES, cheapest

EXAMPLE = [(6, 5), (5, 3), (4, 3)]
UNEQUAL = [(10, 9), (9, 8), (8, 8), (3, 2), (2, 4), (7, 30)]
LARGE = [(598_016, 2_097_152), (335_872, 1_048_576), (428_032, 3_145_728), (165_888, 1_148_576),
         (147_968, 2_000_152), (279_040, 4_194_304)]  # fmt: skip
TWELVE = [(37 * k % 41 + 5, 29 * k % 53 + k / 64) for k in range(1, 13)]

EXERCISE = Formula(
    "choose_recomputed",
    cases={
        "three parts, budget 9": [(EXAMPLE, 9)],
        "six parts, budgets 20, 26 and 32": [(UNEQUAL, 20), (UNEQUAL, 26), (UNEQUAL, 32)],
        "four parts, from small to large": [([(2, 1), (6, 2), (12, 3), (12, 8)], 6)],
        "everything fits": [(EXAMPLE, 15), (EXAMPLE, 100)],
        "nothing may be kept": [(EXAMPLE, 0)],
        "no part at all": [([], 10)],
        "equal parts": [([(6, 5), (6, 5)], 0)],
        "parts of a model": [(LARGE, 1_500_000), (LARGE, 700_000)],
        "twelve parts": [(TWELVE, 100), (TWELVE, 160)],
    },
    truth=cheapest,
    right=lambda calls, values: "; ".join(str(value) for value in values),
    differs=describe_difference,
    asked="a list of indices: those of the parts that are recomputed",
    shape="a list of indices, each a whole number: those of the parts that are recomputed",
    whole="indices are whole numbers",
    mistakes=MISTAKES,
    slow="each of the 4,096 choices among twelve parts is looked at once: that takes milliseconds",
    hints=(
        "Which choices fit? The bytes of the parts that are *not* recomputed count.",
        "With at most twelve parts, all choices can be tried: itertools.combinations gives those "
        "of one length.",
        "Of the choices that fit, take the one with the smallest sum of FLOPs: min(…, key=…).",
    ),
)  # fmt: skip

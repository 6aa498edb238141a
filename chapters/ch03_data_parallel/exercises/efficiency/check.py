"""The share of a rank's speed that is left with more ranks, in strong and in weak scaling."""

from coursekit.kit import Formula

from .truth import MISTAKES, efficiencies

STRONG = ([1, 2, 4, 8], [64, 64, 64, 64], [0.4, 0.25, 0.2, 0.16])

WEAK = ([1, 2, 4], [64, 128, 256], [0.4, 0.5, 0.64])

FROM_TWO = ([2, 8], [16, 64], [1.0, 1.25])

UNSORTED = ([8, 2, 4], [90, 48, 40], [0.5, 0.75, 0.4])

FASTER = ([1, 3], [30, 90], [3.0, 2.4])

MANY = ([1, 512], [64, 64], [0.4, 0.35])

TWICE = ([2, 4, 4], [32, 64, 64], [0.5, 0.8, 0.625])

EXERCISE = Formula(
    "efficiency",
    cases={
        "strong scaling": [STRONG],
        "weak scaling": [WEAK],
        "from 2 ranks to 8": [FROM_TWO],
        "not in order, and neither strong nor weak": [UNSORTED],
        "more than 1 is possible": [FASTER],
        "strong scaling, on 512 ranks": [MANY],
        "4 ranks measured twice": [TWICE],
        "one measurement": [([4], [64], [0.2])],
    },
    truth=efficiencies,
    asked="a list of numbers",
    mistakes=MISTAKES,
    hints=(
        "How many samples does one rank get through in a second? Work that out for each entry.",
        "Find the entry with the fewest ranks: ranks.index(min(ranks)).",
        "Divide each figure by the figure of this entry, in the order of the lists.",
    ),
)  # fmt: skip

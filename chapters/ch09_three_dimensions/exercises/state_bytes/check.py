"""The bytes of model states on one rank of a mesh, with some stage of ZeRO along dp."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

EXAMPLE = "8 ranks, dp 2 × pp 2 × tp 2"

MESHES = {
    EXAMPLE: {"dp": 2, "pp": 2, "tp": 2},
    "64 ranks, dp 4 × pp 4 × tp 4": {"dp": 4, "pp": 4, "tp": 4},
    "12 ranks, dp 6 × pp 2 × tp 1": {"dp": 6, "pp": 2, "tp": 1},
    "8 ranks, dp 8": {"dp": 8, "pp": 1, "tp": 1},
    "15 ranks, dp 1 × pp 5 × tp 3": {"dp": 1, "pp": 5, "tp": 3},
    "24 ranks, tp 3 × dp 4 × pp 2": {"tp": 3, "dp": 4, "pp": 2},
}

EXERCISE = Formula(
    "state_bytes",
    cases={name: [(9600 + 480 * (name != EXAMPLE), sizes, stage) for stage in range(4)]
           for name, sizes in MESHES.items()},
    truth=truth,
    mistakes=MISTAKES,
    unit=" bytes",
    hints=(
        "How many parameters does one rank have, if tp cuts each matrix and pp gives it some of "
        "the layers?",
        "Of each of these parameters, 16 bytes are kept. Which of them does a stage share out over "
        "the dp ranks?",
    ),
)  # fmt: skip

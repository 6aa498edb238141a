"""The bytes that a rank sends along each axis in a step. The truth adds up message by message."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

AXES = ("dp", "pp", "tp")

EXERCISE = Formula(
    "sent_bytes",
    cases={
        "dp 2, pp 2, tp 2, stage 0": [({"dp": 2, "pp": 2, "tp": 2}, 0, 100, 3, 1000)],
        "the last stage of three": [({"dp": 2, "pp": 3, "tp": 2}, 2, 100, 3, 1000)],
        "a stage in the middle": [({"dp": 4, "pp": 4, "tp": 4}, 1, 800, 2, 4000)],
        "one stage": [({"dp": 4, "pp": 1, "tp": 2}, 0, 100, 5, 1000)],
        "one copy": [({"dp": 1, "pp": 2, "tp": 4}, 1, 400, 5, 1000)],
        "bytes that do not divide": [({"dp": 3, "pp": 2, "tp": 4}, 0, 101, 1, 1000)],
        "nothing is cut": [({"dp": 8, "pp": 2, "tp": 1}, 0, 100, 5, 800)],
        "70 billion parameters, tp 8, pp 4": [
            ({"dp": 2, "pp": 4, "tp": 8}, 2, 6.9e10, 20, 4.375e9)
        ],
    },
    truth=truth,
    mistakes=MISTAKES,
    asked="a dict with the keys dp, pp and tp",
    shape="return a dict with three numbers of bytes, under the keys dp, pp and tp",
    errors={"KeyError": "sizes has the keys dp, pp and tp"},
    hints=(
        "Three lines of the table, three entries of the dict. For dp and tp write down what an "
        "all-reduce of n ranks sends.",
        "Along pp count the neighbours: (stage > 0) + (stage < pp - 1).",
    ),
)

"""The place of a rank on each axis of a mesh. The truth counts through all ranks."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

KEYS = "the result is a dict that has a place for each axis of `sizes`, and no other key"

EXERCISE = Formula(
    "coordinates",
    lab="meshes",
    cases={
        "rank 5 of dp 2, pp 2, tp 2": [(5, {"dp": 2, "pp": 2, "tp": 2})],
        "rank 17 of dp 2, pp 3, tp 4": [(17, {"dp": 2, "pp": 3, "tp": 4})],
        "all ranks of pp 3, tp 2": [(rank, {"pp": 3, "tp": 2}) for rank in range(6)],
        "all ranks of tp 2, dp 3, pp 2": [
            (rank, {"tp": 2, "dp": 3, "pp": 2}) for rank in range(12)
        ],
        "an axis of one rank": [(rank, {"dp": 2, "pp": 1, "tp": 3}) for rank in range(6)],
        "one axis": [(rank, {"dp": 4}) for rank in range(4)],
        "four axes": [(rank, {"dp": 2, "pp": 2, "cp": 3, "tp": 2}) for rank in (0, 7, 13, 22)],
    },
    truth=truth,
    right=lambda calls, values: ", ".join(
        " ".join(str(value[axis]) for axis in sizes) for (_, sizes), value in zip(calls, values[:6])
    ),
    mistakes=MISTAKES,
    errors={
        "not reversible": "reversed() takes a list: list(sizes) has the names in their order",
        "division or modulo by zero": "no axis has size 0: which number do you divide by?",
        "dictionary changed size": "a dict must not change while one goes through it: fill a new "
        "one",
    },
    shape=KEYS,
    whole="places are whole numbers",
    hints=(
        "Take sizes dp 2, pp 3, tp 4. How many ranks further is one step along tp? Along pp? Along "
        "dp?",
        "Go through the axes from the last to the first: rank % size is the place there, and "
        "rank // size is what is left for the axes before. divmod(rank, size) gives both.",
    ),
)

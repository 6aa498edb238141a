"""All groups of a mesh along one or several axes. The truth compares places, rank with rank."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

SHAPE = "the result is a list of groups, and each group is a list of ranks"

EXERCISE = Formula(
    "groups_along",
    lab="meshes",
    cases={
        "tp of dp 2, tp 2": [("tp", {"dp": 2, "tp": 2})],
        "dp of dp 2, tp 2": [("dp", {"dp": 2, "tp": 2})],
        "pp of dp 2, pp 3, tp 4": [("pp", {"dp": 2, "pp": 3, "tp": 4})],
        "each axis of tp 3, dp 2, pp 2": [
            (axis, {"tp": 3, "dp": 2, "pp": 2}) for axis in ("tp", "dp", "pp")
        ],
        "an axis of one rank": [("pp", {"dp": 2, "pp": 1, "tp": 2})],
        "dp and tp together, of dp 2, tp 2": [(("dp", "tp"), {"dp": 2, "tp": 2})],
        "pp and tp together, of dp 2, pp 2, tp 3": [(("pp", "tp"), {"dp": 2, "pp": 2, "tp": 3})],
        "dp and tp together, of dp 2, pp 2, tp 2": [(("dp", "tp"), {"dp": 2, "pp": 2, "tp": 2})],
        "tp and dp together, of dp 2, pp 2, tp 2": [(("tp", "dp"), {"dp": 2, "pp": 2, "tp": 2})],
        "dp of dp 2, p 2": [("dp", {"dp": 2, "p": 2})],
        "d of d 2, dp 2": [("d", {"d": 2, "dp": 2})],
        "three axes together, of dp 2, pp 2, cp 2, tp 2": [
            (("dp", "cp", "tp"), {"dp": 2, "pp": 2, "cp": 2, "tp": 2})
        ],
    },
    truth=truth,
    right=lambda calls, values: "; ".join(" ".join(map(str, value)) for value in values),
    mistakes=MISTAKES,
    errors={
        "KeyError": "which name is that? A tuple of names is not a name: `axes` may be either",
        "unhashable type: 'dict'": "a dict cannot be a key of a dict; a tuple of places can",
        "unhashable type: 'list'": "a list cannot be a key of a dict; a tuple can",
    },
    shape=SHAPE,
    whole="ranks are whole numbers",
    hints=(
        "Which two ranks are in one group? Write down the coordinates of all ranks of a small "
        "mesh, and cross out the axis in question. Who looks the same now?",
        "Go through all ranks. The places on all *other* axes, as a tuple, are the key of a dict; "
        "its value is the list of ranks that have them.",
        'isinstance(axes, str) tells one name from several. Mind that "p" in "dp" is true: '
        "compare whole names.",
    ),
)

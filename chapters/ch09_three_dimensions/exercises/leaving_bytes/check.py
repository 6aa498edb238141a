"""The bytes that leave each machine, for an order of the axes. The truth looks at every pair."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

TWO = {"dp": 2, "tp": 2}

SENT = {"dp": 10, "pp": 7, "tp": 300}

EXERCISE = Formula(
    "leaving_bytes",
    cases={
        "dp 2, tp 2, 2 ranks on each machine": [(TWO, 2, {"dp": 10, "tp": 300})],
        "tp 2, dp 2, 2 ranks on each machine": [({"tp": 2, "dp": 2}, 2, {"dp": 10, "tp": 300})],
        "dp 2, pp 2, tp 2, 4 ranks on each machine": [({"dp": 2, "pp": 2, "tp": 2}, 4, SENT)],
        "dp 2, pp 2, tp 2, 2 ranks on each machine": [({"dp": 2, "pp": 2, "tp": 2}, 2, SENT)],
        "dp 2, tp 4, 4 ranks on each machine": [({"dp": 2, "tp": 4}, 4, {"dp": 10, "tp": 300})],
        "dp 2, tp 4, 2 ranks on each machine": [({"dp": 2, "tp": 4}, 2, {"dp": 10, "tp": 300})],
        "dp 4, tp 2, 4 ranks on each machine": [({"dp": 4, "tp": 2}, 4, {"dp": 10, "tp": 300})],
        "dp 3, tp 2, 2 ranks on each machine": [({"dp": 3, "tp": 2}, 2, {"dp": 10, "tp": 300})],
        "groups that lie unevenly on machines": [({"dp": 2, "tp": 3}, 2, {"dp": 10, "tp": 300})],
        "three axes, unevenly": [({"dp": 2, "pp": 3, "tp": 2}, 4, SENT)],
        "one machine": [(TWO, 4, {"dp": 10, "tp": 300})],
    },
    truth=truth,
    mistakes=MISTAKES,
    asked="a list of bytes, one number for each machine",
    shape="return a list, with one number for each machine: machine 0 first",
    unit=" bytes",
    errors={
        "KeyError": "`sent` has the same names as `sizes`",
        "list index out of range": "a world of n ranks has n / per_machine machines",
    },
    hints=(
        "For each axis, each group, and each member: to whom does it send? On which machine is the "
        "sender, and on which the receiver?",
        "rank // per_machine is the number of a rank's machine. zip(ranks, ranks[1:] + ranks[:1]) "
        "gives each member with the next one.",
    ),
)

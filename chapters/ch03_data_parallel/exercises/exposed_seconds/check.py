"""Communication that no computing covers, from the spans of a trace."""

from coursekit.kit import Formula

from .truth import MISTAKES, exposed

NOW = 1.79e9  # in seconds since 1970, as traces count

EXAMPLE = ([(0.0, 4.0), (3.0, 6.0)], [(1.0, 2.0), (5.0, 9.0)])

CASES = {
    "the example": EXAMPLE,
    "nothing is covered": ([(2.0, 3.0)], [(0.0, 2.0), (3.0, 4.5)]),
    "all of it is covered": ([(1.0, 2.0), (4.0, 5.0)], [(0.5, 6.0)]),
    "no computing": ([(1.0, 2.5), (3.0, 4.0)], []),
    "no communication": ([], [(1.0, 2.0)]),
    "nothing at all": ([], []),
    "covered twice": ([(0.0, 10.0)], [(2.0, 6.0), (3.0, 7.0)]),
    "computing within computing": ([(0.0, 10.0)], [(2.0, 8.0), (3.0, 4.0), (6.0, 7.0)]),
    "three messages at a time": ([(0.0, 5.0), (1.0, 6.0), (2.0, 3.0)], [(5.5, 8.0)]),
    "in no order": ([(7.0, 9.0), (0.0, 2.0)], [(8.0, 8.5), (1.0, 1.5), (0.25, 0.5)]),
    "computing that covers two messages": ([(0.0, 2.0), (3.0, 5.0)], [(1.0, 4.0)]),
    "equal spans": ([(1.0, 2.0), (1.0, 2.0)], [(4.0, 5.0), (4.0, 5.0)]),
    "long after the trace began": ([(900.0, 904.0)], [(901.0, 902.0)]),
    "before the trace began": ([(-3.0, -1.0)], [(-2.0, 0.0)]),
    "one message is covered exactly": ([(0.0, 1.0), (2.0, 3.0)], [(0.0, 1.0)]),
    "spans of microseconds": ([(0.0, 1.5025e-4)], [(2e-5, 7e-5)]),
    "seconds since 1970": ([(NOW + 1, NOW + 4)], [(NOW + 2, NOW + 3)]),
}

EXERCISE = Formula(
    "exposed_seconds",
    cases={case: [call] for case, call in CASES.items()},
    truth=exposed,
    unit=" s",
    asked="a number of seconds",
    mistakes=MISTAKES,
    errors={
        "list index out of range": "both lists may be empty",
        "arg is an empty sequence": "both lists may be empty",
        "iterable argument is empty": "both lists may be empty",
    },
    lab="rank_traces",
    hints=(
        "Spans overlap, so that their lengths cannot be added. At which moments can the answer to "
        '"is something under way?" change?',
        "Only where a span starts or ends. Sort these moments, and go from one to the next: "
        "nothing changes in between.",
        "Count how many spans of each list are under way. While there is at least one of "
        "communication and none of computing, add the time since the moment before.",
    ),
)  # fmt: skip

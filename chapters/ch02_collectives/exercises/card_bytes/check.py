"""The bytes that leave each machine in a ring whose ranks come in some order."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

ONE_FOR_EACH_MACHINE = "asked is one number for each machine: max(machine_of) + 1 of them"


def wrong_length(found, case) -> str:
    """Diagnose a list of the wrong length."""
    _, machine_of, _ = EXERCISE.cases[case][0]
    (got,) = found[case]
    if not isinstance(got, list) or len(got) == 1 + max(machine_of):
        return ""
    return f"{ONE_FOR_EACH_MACHINE}, {1 + max(machine_of)} here."


EXERCISE = Formula(
    "card_bytes",
    cases={
        "2 machines, 2 ranks each, in order": [([0, 1, 2, 3], [0, 0, 1, 1], 4e6)],
        "2 machines, 2 ranks each, in turns": [([0, 2, 1, 3], [0, 0, 1, 1], 4e6)],
        "2 machines, 2 ranks each, from rank 2 on": [([2, 0, 1, 3], [0, 0, 1, 1], 4e6)],
        "2 machines, 3 and 1 ranks": [([0, 1, 2, 3], [0, 0, 0, 1], 4e6)],
        "3 machines, 2 ranks each, half in turns": [([0, 1, 2, 4, 3, 5], [0, 0, 1, 1, 2, 2], 6e6)],
        "3 machines, 3, 2 and 1 ranks, in any order": [
            ([3, 1, 4, 2, 5, 0], [1, 0, 1, 0, 2, 0], 6e5)
        ],
        "one machine": [([1, 0, 2], [0, 0, 0], 3e6)],
        "7 bytes on 3 ranks": [([0, 1, 2], [0, 0, 1], 7)],
    },
    truth=truth,
    mistakes=MISTAKES,
    errors={
        "list index out of range": "an index is too large. At the last place of the ring, the "
        "following rank is order[0]: (place + 1) % n leads there. And the list that you return "
        "has max(machine_of) + 1 places.",
    },
    explain=wrong_length,
    asked="a list of bytes, one number for each machine",
    shape=ONE_FOR_EACH_MACHINE,
    unit=" bytes",
    hints=(
        "Go round the ring: from each rank of the order to the following one, and from the last to "
        "the first. Which of these messages leave their machine?",
        "Each rank sends 2(n-1) chunks of nbytes / n to the one that follows. If that is on "
        "another machine, they all pass the card of the sender's.",
    ),
)

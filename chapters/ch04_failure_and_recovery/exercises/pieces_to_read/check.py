"""The pieces of old shards that a rank reads, if another number of ranks has saved them."""

from coursekit.kit import Formula
from pedagogy_lib.basics.units import format_count

from .truth import MISTAKES, truth

CASES = {
    "12 numbers, from 4 ranks to 3": (12, 4, 3),
    "12 numbers, from 3 ranks to 4": (12, 3, 4),
    "12 numbers, from 4 ranks to 4": (12, 4, 4),
    "12 numbers, from 4 ranks to 1": (12, 4, 1),
    "12 numbers, from 1 rank to 4": (12, 1, 4),
    "10 numbers, from 4 ranks to 3": (10, 4, 3),
    "11 numbers, from 3 ranks to 5": (11, 3, 5),
    "5 numbers, from 4 ranks to 2": (5, 4, 2),
    "3 numbers, from 2 ranks to 5": (3, 2, 5),
    "9 numbers, from 5 ranks to 8": (9, 5, 8),
}


def describe_difference(call, wanted, got) -> str:
    return f"for rank {call[3]}, expected {format_pieces(wanted)}, got {format_pieces(got)}"


def format_pieces(pieces) -> str:
    return f"[{', '.join(str(tuple(piece)) for piece in pieces)}]"


EXERCISE = Formula(
    "pieces_to_read",
    lab="sharded_checkpoints",
    cases={case: [(*sizes, rank) for rank in range(sizes[-1])] for case, sizes in CASES.items()},
    truth=truth,
    mistakes=MISTAKES,
    errors={
        "division or modulo by zero": "with few numbers and many ranks, length // ranks is 0: a "
        "shard has ceil(length / ranks) of them, at least one",
        "division by zero": "with few numbers and many ranks, length // ranks is 0: a shard has "
        "ceil(length / ranks) of them, at least one",
    },
    differs=describe_difference,
    right=lambda calls, values: (
        f"{sum(map(len, values))} pieces for {format_count(len(values), 'rank')}"
    ),
    asked="a list of (old rank, begin, end)",
    shape="return a list of tuples: (old rank, begin, end)",
    hints=(
        "Number all numbers from 0 to length - 1. From which to which does the new rank want them?",
        "Old rank k has those from k * each up to (k + 1) * each, with each = ceil(length / old), "
        "but none from `length` on. Where do both overlap?",
        "From the larger of the two beginnings to the smaller of the two ends, if anything lies "
        "between them. Then subtract the first number of the old shard.",
    ),
)

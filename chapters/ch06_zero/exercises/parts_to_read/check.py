"""The parts of old files that make up a rank's new part."""

from coursekit.kit import Formula
from pedagogy_lib.basics.units import format_count

from .truth import MISTAKES, truth

SIZES = [
    (10, 4, 2), (12, 4, 3), (12, 3, 4), (12, 2, 6), (10, 2, 4), (7, 1, 3), (7, 3, 1), (9, 3, 3),
    (5, 4, 3), (2, 3, 5), (1, 2, 2), (1000, 7, 6),
]  # fmt: skip


def describe_parts(parts) -> str:
    """Return parts in the form that is asked for; of many parts, only the first three."""
    if not all(isinstance(part, list) for part in parts):
        return f"{parts!r:.60}"
    return str(list(map(tuple, parts[:3])))[:-1] + (", …]" if len(parts) > 3 else "]")


EXERCISE = Formula(
    "parts_to_read",
    lab="resharding",
    cases={
        f"{format_count(length, 'number')}, {format_count(before, 'file')}, "
        f"{format_count(now, 'rank')}": [(length, before, now, rank) for rank in range(now)]
        for length, before, now in SIZES
    },
    truth=truth,
    right=lambda calls, values: f"{format_count(sum(map(len, values)), 'read')} in all",
    differs=lambda call, wanted, got: (
        f"rank {call[3]}: expected {describe_parts(wanted)}, got {describe_parts(got)}"
    ),
    mistakes=MISTAKES,
    errors={
        "division by zero": "how many numbers does a part have? ceil(length / n), at least 1",
    },
    asked="a list of (file, start, end)",
    shape="return a list of triples (file, start, end); it is empty for a rank without numbers",
    hints=(
        "In the whole tensor, the new part of this rank is numbers begin up to end. The old part "
        "of file k is old_begin up to old_end. What have both in common?",
        "From the larger of both begins up to the smaller of both ends: if that is not empty, it "
        "is read from file k.",
        "Count it from the beginning of the file: subtract where file k begins in the tensor. "
        "Neither part goes beyond `length`.",
    ),
)

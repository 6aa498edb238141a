"""The order of forwards in an interleaved schedule, in groups of any size."""

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Formula, Wrong
from pedagogy_lib.basics.units import format_count

from .cases import describe_other_type
from .truth import MISTAKES, truth

SIZES = [(3, 2, 2), (7, 2, 3), (11, 3, 4), (6, 2, 3), (5, 2, 5), (3, 2, 4), (4, 1, 3), (1, 3, 1)]
MOST_SHOWN = 12


def format_forwards(value) -> str:
    """Return forwards as the part writes them: `F0 F1 F0.1`."""
    pairs = [pair for pair in value if isinstance(pair, (list, tuple)) and len(pair) == 2]
    shown = [f"F{i}" + (f".{chunk}" if chunk else "") for i, chunk in pairs[:MOST_SHOWN]]
    return " ".join(shown) + (" …" if len(value) > MOST_SHOWN else "")


def differs(call, wanted, got) -> str:
    if len(got) != len(wanted):
        return f"expected {len(wanted)} forwards, got {len(got)}: {format_forwards(got)}"
    return f"expected {format_forwards(wanted)}\n  got {format_forwards(got)}"


def explain(found, case) -> str:
    values = found[case][0]
    if any(not isinstance(pair, (list, tuple)) or len(pair) != 2 for pair in values):
        return "asked is a list of pairs: (micro-batch, chunk). The kind is left out"
    return ""


def need_pairs_of_int(answer):
    """Raise `Wrong` for other types, which look alike once they are plain numbers."""
    call = SIZES[0]
    other = call_next_to_answer(describe_other_type, answer, call)
    if other:
        raise Wrong(
            "the types", f"expected a list of pairs of int, got {other}",
            "schedules index and compare these numbers, and read the list more than once: give a "
            "list, and whole numbers of Python",
        )  # fmt: skip
    yield "a list of pairs of int"


EXERCISE = Formula(
    "order_forwards",
    lab="schedules",
    cases={
        f"{format_count(m, 'micro-batch')}, {format_count(chunks, 'chunk')}, groups of {size}":
            [(m, chunks, size)] for m, chunks, size in SIZES
    },
    truth=truth,
    right=lambda calls, values: format_forwards(values[0]),
    differs=differs,
    asked="a list of pairs",
    also=need_pairs_of_int,
    shape="return a list of pairs (micro-batch, chunk), one for each forward",
    explain=explain,
    errors={
        "arg 3 must not be zero": "the last group may have fewer than `size` micro-batches, and "
        "all of them may be one group: a step of range() is at least 1",
    },
    mistakes=MISTAKES,
    hints=(
        "Three loops, one inside another. Which one changes fastest, the group, the chunk or the "
        "micro-batch?",
        "The outermost loop goes over the first micro-batch of each group: "
        "range(0, microbatches, size).",
        "Inside it, a loop over the chunks, and inside that, one over the micro-batches of the "
        "group, which ends at first + size, or at `microbatches` if that comes earlier.",
    ),
)  # fmt: skip

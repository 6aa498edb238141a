"""The action of each turn in an interleaved schedule."""

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Formula, Wrong
from pedagogy_lib.basics.units import format_count
from pedagogy_lib.schedules.simulations import simulate
from pedagogy_lib.schedules.timelines import LABELS

from ..shared.actions import Action
from ..shared.actions_truth import format_row
from ..shared.generators import format_case, need_action, offence, restore_action
from .cases import first_turn, rows_of_lab
from .truth import MISTAKES, right

SIZES = [(3, 2), (2, 3)]  # ranks, chunks

OTHERS = [(4, 1), (1, 3), (4, 3), (1, 1)]

INTERLEAVED = [(2, 4, 2), (4, 8, 2), (3, 6, 3)]  # ranks, micro-batches, chunks


def calls(kind, ranks, chunks) -> list[tuple]:
    """Return the arguments of two groups' turns and one more; some forwards omit the kind."""
    return [
        (k, ranks, chunks) if kind == "F" and k % 2 else (k, ranks, chunks, kind)
        for k in range(2 * ranks * chunks + 1)
    ]


def report_turns(turns, values) -> str:
    ranks = turns[0][1]
    return "all turns" if turns[-1][1] != ranks else f"{format_row(values[: 2 * ranks])} …"


def whole_schedules(answer):
    """Yield a line about each whole schedule of the lab, which asks the answer for each turn.

    Each turn by itself was right before.
    """
    action, shown = call_next_to_answer(first_turn, answer)
    need_action("k = 0, 2 ranks, 2 chunks", f"it gives {shown}", restore_action(action))
    for ranks, m, chunks in INTERLEAVED:
        case = f"`interleaved` with it, {format_case(ranks, m)}, {format_count(chunks, 'chunk')}"
        rows = [[Action(*parts) for parts in row]
                for row in call_next_to_answer(rows_of_lab, answer, ranks, m, chunks)]  # fmt: skip
        what = offence(rows, m)
        if what:
            raise Wrong(case, what, "each turn was right: has `interleaved` itself been changed?")
        line = simulate(rows)
        yield f"{case}: at most {line.most_kept} kept, {line.idle_share:.1%} of the time idle"


def fractions(found, case) -> str:
    values = [value for values in found.values() for value in values if isinstance(value, list)]
    has_float = any(isinstance(number, float) for value in values for number in value)
    if has_float:
        return "micro-batches and chunks are whole numbers: divide with //"
    if any(len(value) != 3 or isinstance(value[0], list) for value in values):
        return "asked is one action, that of turn k alone: Action(kind, microbatch, chunk)"
    strange = any(value[0] not in [*LABELS] for value in values)
    return "the kind of the action is the argument `kind`, as it is" if strange else ""


EXERCISE = Formula(
    "turn",
    cases={
        f"{LABELS[kind]}s, {format_count(ranks, 'rank')}, {format_count(chunks, 'chunk')}":
            calls(kind, ranks, chunks) for kind in "FB" for ranks, chunks in SIZES
    } | {
        "1 to 4 ranks, 1 to 3 chunks":
            [call for kind in "FB" for sizes in OTHERS for call in calls(kind, *sizes)]
    },
    truth=right,
    right=report_turns,
    differs=lambda call, wanted, got: f"k = {call[0]}: expected {format_row([wanted])}, got {got}",
    asked="an action",
    errors={"out of range": "k counts on over all groups: after the turns of the first group come "
            "those of the second one"},
    shape="asked is Action(kind, microbatch, chunk)",
    explain=fractions,
    also=whole_schedules,
    mistakes=MISTAKES,
    hints=(
        "Write down the forwards of 2 ranks with 2 chunks, micro-batch and chunk: 0 and 1 "
        "through chunk 0, 0 and 1 through chunk 1, then 2 and 3 through chunk 0, …",
        "A group takes ranks * chunks turns. divmod(k, ranks * chunks) gives how many groups "
        "have gone before, and how far k is in its own.",
        "Within a group, divmod(…, ranks) gives the chunk and the place in the group. The "
        "micro-batch is group * ranks + place.",
        "Backwards: the same, with the chunk chunks - 1 - chunk.",
    ),
    lab="schedules",
)  # fmt: skip

"""A plan of gathers and reductions that repeats them for each micro-batch."""

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Formula, Wrong

from ..shared.actions import actions_of
from .cases import describe_other_type
from .faults import actions_in, find_fault
from .truth import MISTAKES, truth

FINDS_A_BUG = True

ROWS = {
    "breadth-first, 2 chunks": "F0 F1 F2 F0.1 F1.1 F2.1 B0.1 B1.1 B2.1 B0 B1 B2",
    "depth-first, 2 chunks": "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3",
    "backwards in another order": "F0 F1 F0.1 F1.1 B1.1 B0.1 B1 B0",
    "one chunk": "F0 B0 F1 B1",
    "breadth-first, 3 chunks":
        "F0 F1 F0.1 F1.1 F0.2 F1.2 B0.2 B1.2 B0.1 B1.1 B0 B1",
}  # fmt: skip


def same(got, wanted) -> bool:
    """Return whether two plans are equal, or both right for the same row."""
    row = actions_in(wanted)
    both_right = not find_fault(got, row) and not find_fault(wanted, row)
    return got == wanted or both_right


def report_plan(calls, values) -> str:
    kinds = [one[0] for one in values[0]]
    return f"{kinds.count('gather')} gathers, {kinds.count('reduce')} reductions"


def differs(call, wanted, got) -> str:
    return find_fault(got, [list(action) for action in call[0]])[0]


def explain(found, case) -> str:
    row = [list(action) for action in EXERCISE.cases[case][0][0]]
    return find_fault(found[case][0], row)[1]


def need_actions_and_moves(answer):
    """Raise `Wrong` for other types, which look alike once they are plain lists."""
    call = (actions_of(ROWS["breadth-first, 2 chunks"]),)
    other = call_next_to_answer(describe_other_type, answer, call)
    if other:
        raise Wrong(
            "the types", f"expected a list of actions and moves, got {other}",
            'the pipeline reads the kind and the chunk of each: give a list with Move("gather", 0)',
        )  # fmt: skip
    yield "a list of actions and moves"


EXERCISE = Formula(
    "plan_moves",
    cases={case: [(actions_of(text),)] for case, text in ROWS.items()},
    truth=truth,
    same=same,
    right=report_plan,
    differs=differs,
    explain=explain,
    asked="a list",
    also=need_actions_and_moves,
    shape="return the list of all actions and moves",
    errors={
        "list index out of range": "after the last action no other one follows: the plan ends "
        "there",
        "'NoneType'": "nothing is gathered at the beginning, and after a chunk has been freed: "
        "`held` is None then",
    },
    mistakes=MISTAKES,
    hints=(
        "Print the plan of a breadth-first row with 2 micro-batches, and follow one chunk. After "
        "which of its actions does it have to move?",
        "Gradients of micro-batches add up in `.grad` by themselves. They have to be reduced once, "
        "when no action of this chunk follows.",
        "row[number + 1 :] are the later actions. If none of them has this chunk, reduce it, and "
        "free it.",
    ),
)  # fmt: skip

"""A broadcast along a tree."""

from coursekit.kit.collective_exercise import Collective
from coursekit.kit.diagnoses import ranks_text, same

from ..shared.costs import need_tree
from ..shared.misconceptions import (
    TO_ITSELF,
    changes_nothing,
    diagnose_other_root,
    group_ignored,
    hang_in_a_tree,
    not_a_power_of_two,
)
from ..shared.tasks import LARGE_TREES, TREE_CASES, RootTask
from .truth import truth


def diagnose_early_send(trial) -> str:
    """Diagnose a broadcast in which a rank passed on its own x."""
    root = trial.case.root
    for place in range(trial.case.n):
        for other in range(trial.case.n):
            is_others = same(trial.after[place][0], trial.before[other][0])
            if other not in (root, place) and is_others and not trial.is_right(place):
                return (
                    f"rank {place} now has what rank {other} had at the start: rank {other} sent "
                    "before it had received. Whoever gets x in a round sends it in the next one."
                )
    return ""


def some_left_out(trial) -> str:
    """Diagnose ranks that have neither sent nor received."""
    left = [place for place in range(trial.case.n) if not trial.calls[place]]
    if not left:
        return ""
    return (
        f"{ranks_text(left)} never got it. With each round the number of ranks that have it "
        "doubles: 1, 2, 4, … until all n have it, also if n is no power of two; reach has to grow "
        "until it is n or more."
    )


EXERCISE = Collective(
    "broadcast_tree",
    task=RootTask(),
    truth=truth,
    cases=TREE_CASES,
    diagnoses=[
        changes_nothing,
        group_ignored,
        diagnose_other_root,
        diagnose_early_send,
        some_left_out,
        not_a_power_of_two,
    ],
    large=LARGE_TREES,
    need_cost=need_tree,
    explain_hang=hang_in_a_tree,
    errors=TO_ITSELF,
    hints=(
        "Take root = 0 first. In the first round, 0 sends to 1. In the second, 0 to 2 and 1 to "
        "3. Who sends to whom in the third?",
        "A loop over reach = 1, 2, 4, …: whoever is below `reach` has x and sends it to the "
        "one `reach` further, if there is one; from `reach` to 2 * reach - 1 they receive.",
        "For another root, number the ranks from there: place = (rank - root) % n. A peer's "
        "rank is (its place + root) % n.",
    ),
    lab="collectives",
)

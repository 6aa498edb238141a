"""A reduce along a tree."""

from functools import partial

from coursekit.kit.collective_exercise import Collective
from coursekit.kit.diagnoses import contributions, ranks_text, same

from ..shared.costs import need_tree
from ..shared.misconceptions import (
    TO_ITSELF,
    changes_nothing,
    diagnose_mean,
    diagnose_other_root,
    group_ignored,
    hang_in_a_tree,
    not_a_power_of_two,
    sum_of_the_wrong_ranks,
)
from ..shared.tasks import LARGE_TREES, TREE_CASES, RootTask
from .truth import truth


def diagnose_overwrite(trial) -> str:
    """Diagnose a reduce that ends with another rank's numbers on the root."""
    root = trial.case.root
    for other, tensors in enumerate(trial.before):
        if other != root and same(trial.after[root][0], tensors[0]):
            return (
                f"the root now has what rank {other} had: receiving into x overwrites it. Receive "
                "into another tensor, and add that to x."
            )
    return ""


def diagnose_double_add(trial) -> str:
    """Diagnose received numbers that count twice: received into x, followed by `x += x`."""
    root, parts = trial.case.root, [tensors[0] for tensors in trial.before]
    times = contributions(trial.after[root][0], parts) if parts[0].numel() else None
    if not times or times[root] or set(times) != {0, 2}:
        return ""
    return (
        "the root lacks its own numbers, and has others twice: what comes in is received into x, "
        "in place of what was there, and then added to itself. Receive into another tensor."
    )


def diagnose_missing_sends(trial) -> str:
    places = range(trial.case.n)
    silent = [place for place in places if place != trial.case.root and not trial.sends(place)]
    if not silent or not sum_of_the_wrong_ranks(trial):
        return ""
    return (
        f"nothing has come from {ranks_text(silent)}. Each round halves the number of sums, until "
        "one is left, also if n is no power of two; reach has to grow until it is n or more."
    )


def partial_sums_left_behind(trial) -> str:
    said = sum_of_the_wrong_ranks(trial)
    if not said:
        return ""
    return said + (
        " What a rank sends up the tree has to be its sum so far, with all that it has received "
        "before; and each rank sends once."
    )


EXERCISE = Collective(
    "reduce_tree",
    task=RootTask(),
    truth=truth,
    cases=TREE_CASES,
    diagnoses=[
        changes_nothing,
        group_ignored,
        diagnose_other_root,
        diagnose_mean,
        diagnose_overwrite,
        diagnose_double_add,
        diagnose_missing_sends,
        partial_sums_left_behind,
        not_a_power_of_two,
    ],
    large=LARGE_TREES,
    need_cost=partial(need_tree, towards_root=True),
    explain_hang=hang_in_a_tree,
    errors=TO_ITSELF,
    hints=(
        "A tree again, towards the root. In the first round 1 sends to 0, 3 to 2, 5 to 4.",
        "Whoever has sent is done. In the round of `reach`, those left are the places that "
        "`reach` divides; every other one of them sends.",
        "Receive into a tensor of its own and add it to x, so that x is the sum so far.",
    ),
    lab="collectives",
)

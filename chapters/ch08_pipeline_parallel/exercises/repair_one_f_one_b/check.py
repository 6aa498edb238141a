"""A 1F1B schedule that keeps too many micro-batches."""

from pedagogy_lib.schedules.simulations import EVEN, simulate

from ..one_f_one_b.check import SIGNS
from ..one_f_one_b.truth import truth
from ..shared.generators import Schedule, cases_of
from .truth import ALL_MISTAKES

FINDS_A_BUG = True


def faults(of):
    """Yield errors if memory or time exceeds 1F1B, in which ranks idle for ranks - 1 turns."""
    timeline = simulate(of.rows)
    kept, allowed = timeline.most_kept, [min(of.m, of.ranks - rank) for rank in range(of.ranks)]
    if any(most > right for most, right in zip(kept, allowed)):
        yield (
            f"the ranks keep up to {kept} micro-batches; 1F1B needs memory for {allowed}",
            "the first rank needs as many micro-batches under way as there are ranks; each further "
            "rank one fewer, because its backwards come back sooner",
        )
    seconds, right = timeline.seconds, (of.m + of.ranks - 1) * (EVEN["F"] + EVEN["B"])
    if seconds > right:
        yield (
            f"a step takes as long as {seconds:g} forwards; with 1F1B it takes {right:g}",
            "the memory is enough, but ranks are idle: some have nothing to go forward with while "
            "they wait for their first backward. Compare simulate(rows) with what 1F1B takes",
        )


EXERCISE = Schedule(
    "one_f_one_b",
    cases=cases_of((4, 8), (4, 2), (1, 4), (2, 6), (3, 3), (8, 16)),
    truth=truth,
    faults=faults,
    mistakes=ALL_MISTAKES,
    signs=[
        (
            "each backward releases one micro-batch, and makes room again: what a rank keeps is "
            "the difference of its forwards and backwards",
            lambda of: any(
                kinds.count("F") == of.leads[rank] < of.m and of.leads[rank]
                for rank, kinds in enumerate(of.kinds)
            ),
        ),
        *SIGNS,
    ],
    hints=(
        "Go through the actions of the last rank by hand. It has room for one micro-batch. When "
        "does it find that it has room?",
        "forwards - backwards is what the rank keeps now, before the next action. A forward keeps "
        "one more.",
        "There is room for another one only while it keeps fewer than `room`.",
    ),
)

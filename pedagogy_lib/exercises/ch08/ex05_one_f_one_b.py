"""A 1F1B that keeps too much."""

from ...schedules.simulations import EVEN, simulate
from .ex04_one_f_one_b import EXERCISE as ONE_F_ONE_B
from .ex04_one_f_one_b import MISTAKES, ONE_TOO_MANY, SIGNS
from .generators import Schedule, cases_of

FINDS_A_BUG = True


def faults(of):
    """What a rank keeps, and what a step takes, beside 1F1B: there one is idle ranks - 1 turns."""
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
    "8.5",
    "one_f_one_b",
    cases=cases_of((4, 8), (4, 2), (1, 4), (2, 6), (3, 3), (8, 16)),
    truth=ONE_F_ONE_B.truth,
    faults=faults,
    mistakes=[
        (
            "the last rank keeps more than it has to: when can it go back with its first "
            "micro-batch, and how many forwards has it done by then? What follows for the others?",
            ONE_TOO_MANY[1],
        ),
        *MISTAKES,
    ],
    signs=SIGNS,
    hints=(
        "Print the rows for 4 ranks and 8 micro-batches. How many forwards does the last rank "
        "do before its first backward, and how many would be enough?",
        "In the steady part a forward comes before its backward. So while it lasts, a rank "
        "keeps one micro-batch more than it has warmed up with.",
        "A rank warms up with as many forwards as there are ranks after it. The last one has "
        "nobody after it: 0.",
    ),
)

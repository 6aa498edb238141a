"""A 1F1B that keeps too much: exercise 8.5. Checked by rule and simulated, without ranks."""

from ...course.checking import Exercise, Wrong
from ...schedules.timelines import EVEN, simulate
from .generators import GPIPE, leads, offence, rows_from, told_case, why_one_f_one_b

SIZES = [(4, 8), (4, 2), (1, 4), (2, 6), (3, 3), (8, 16)]  # ranks, micro-batches
AS_IT_WAS = (
    "every rank keeps more than it has to. Take the last rank: when can it go back with its first "
    "micro-batch, and how many forwards has it done by then? What follows for the others?"
)
TOO_MANY = (
    "the first rank needs as many micro-batches under way as there are ranks; each further rank "
    "one fewer, because its backwards come back sooner"
)
TOO_LONG = (
    "the memory is enough, but ranks are idle: some have nothing to go forward with while they "
    "wait for their first backward. Compare simulate(rows) with what 1F1B takes"
)


def examine_warm_up(answer):
    for ranks, m in SIZES:
        case = told_case(ranks, m)
        rows = rows_from(case, answer, ranks, m)
        what = offence(rows, m)
        if what:
            raise Wrong(case, what, why_one_f_one_b(rows, ranks, m))
        timeline = simulate(rows)
        judge_kept(case, rows, timeline.most_kept, ranks, m)
        judge_time(case, rows, timeline.seconds, ranks, m)
        yield f"{case}: at most {timeline.most_kept} kept, in the time that 1F1B takes"


def judge_kept(case, rows, kept, ranks, m):
    allowed = [min(m, ranks - rank) for rank in range(ranks)]
    if any(most > right for most, right in zip(kept, allowed)):
        what = f"the ranks keep up to {kept} micro-batches; 1F1B needs memory for {allowed}"
        raise Wrong(case, what, why_kept(rows, ranks, m))


def why_kept(rows, ranks, m) -> str:
    found = [leads(row) for row in rows]
    if found == [min(m, ranks - rank + 1) for rank in range(ranks)]:
        return AS_IT_WAS
    if all(count == m for count in found):
        return GPIPE
    return why_one_f_one_b(rows, ranks, m) or TOO_MANY


def judge_time(case, rows, seconds, ranks, m):
    """Raise `Wrong` if it takes longer than 1F1B, in which a rank is idle for ranks - 1 turns."""
    right = (m + ranks - 1) * (EVEN["F"] + EVEN["B"])
    if seconds > right:
        what = f"a step takes as long as {seconds:g} forwards; with 1F1B it takes {right:g}"
        raise Wrong(case, what, why_one_f_one_b(rows, ranks, m) or TOO_LONG)


EXERCISE = Exercise(
    "8.5", "one_f_one_b", examine_warm_up,
    (
        "Print the rows for 4 ranks and 8 micro-batches. How many forwards does the last rank "
        "do before its first backward, and how many would be enough?",
        "In the steady part a forward comes before its backward. So while it lasts, a rank "
        "keeps one micro-batch more than it has warmed up with.",
        "A rank warms up with as many forwards as there are ranks after it. The last one has "
        "nobody after it: 0.",
    ),
)  # fmt: skip

"""A schedule that beats 1F1B, with memory for as many micro-batches as 1F1B's first rank keeps."""

from dataclasses import dataclass

from ...course.checking import Wrong
from ...schedules.simulations import simulate
from ...schedules.timelines import kept_after, text_of
from ..kit.outcomes import outcome_of
from .actions import Action
from .generators import BELOW_0, Rows, Schedule, cases_of, offence, rows_from, told_case

WORK = 3.0  # a forward and both halves of a backward take 1 each


def in_letters(rank, ranks, m):
    """A text of kinds, each with the next micro-batch of its own count."""
    after, steady = ranks - 1 - rank, m - ranks + 1
    kinds = "F" * after + "FI" * rank + "FIW" * steady + "IW" * after + "W" * rank
    return [Action(kind, kinds[:k].count(kind)) for k, kind in enumerate(kinds)]


def of_1f1b(rank, ranks, m, back=lambda i: [Action("B", i)]):
    warm_up = min(ranks - 1 - rank, m)
    row = [Action("F", i) for i in range(warm_up)]
    for i in range(m):
        row += [Action("F", i + warm_up)] * (i + warm_up < m) + back(i)
    return row


def at_once(rank, ranks, m):
    return of_1f1b(rank, ranks, m, lambda i: [Action("I", i), Action("W", i)])


def at_the_end(rank, ranks, m):
    row = of_1f1b(rank, ranks, m, lambda i: [Action("I", i)])
    return row + [Action("W", i) for i in range(m)]


def put_off(how_far):
    """1F1B in halves, where a rank puts W off by so many micro-batches."""

    def schedule(rank, ranks, m):
        off = min(how_far(rank, ranks), m)
        row = of_1f1b(rank, ranks, m, lambda i: [Action("I", i), *back(i, off)])
        return row + [Action("W", i) for i in range(m - off, m)]

    def back(i, off):
        return [Action("W", i - off)] * (i >= off)

    return schedule


def after_the_last_forward(rank, ranks, m):
    """W at once in the steady part, and then all first halves before the W that are left."""
    row = at_once(rank, ranks, m)
    cut = row.index(Action("F", m - 1))
    return row[: cut + 1] + sorted(row[cut + 1 :], key=lambda action: action.kind == "W")


MISTAKES = [
    ("this is 1F1B. A rank sends a gradient back only when the whole B is done. The rank before "
     "waits for the half I alone", of_1f1b),
    ("a good beginning: each rank sends the gradient back before it computes W. But a W still "
     "stands in the way of the next I, for which the ranks before wait. Which ranks have memory "
     "to put their W off?", at_once),
    ("all W are at the end. Until then a rank keeps every micro-batch: what W needs is kept until "
     "W is done", at_the_end),
    ("the first ranks put their W off most, and they keep most already. Look at what each rank "
     "keeps under 1F1B: who has room?", put_off(lambda rank, ranks: ranks - 1 - rank)),
    ("every rank puts its W off by as many micro-batches. Under 1F1B the first rank has no room, "
     "and each further rank has room for one more", put_off(lambda rank, ranks: ranks - 1)),
    ("only one W is put off on each rank. The last ranks have room for more",
     put_off(lambda rank, ranks: min(rank, 1))),
    ("some W are put off, and the last ranks still have room for more",
     put_off(lambda rank, ranks: rank // 2)),
    ("where the forwards are done, a rank waits for each I. That time is free for its W: in "
     "turns, one I and one W", after_the_last_forward),
]  # fmt: skip


# ---- What is wrong with a row ---


def owed_after(row) -> list[int]:
    """After each action of a row: how many W could be done."""
    kinds = [kind for kind, *_ in row]
    return [kinds[: k + 1].count("I") - kinds[: k + 1].count("W") for k in range(len(kinds))]


def idle_with_work(timeline):
    """(rank, action, how long) of the first one that a rank waits for, though it could do a W."""
    for rank, (row, spans) in enumerate(zip(timeline.rows, timeline.spans)):
        owed = owed_after(row)
        for k in range(1, len(row)):
            idle = spans[k][0] - spans[k - 1][1]
            if idle > 0.5 and owed[k - 1] > 0:
                return rank, row[k], idle
    return None


def faults(of):
    p, m = of.ranks, of.m
    timeline = simulate(of.rows)
    for rank, row in enumerate(of.rows):
        kept = kept_after(row)
        if max(kept, default=0) > p:
            action = row[next(k for k, count in enumerate(kept) if count > p)]
            yield (
                f"rank {rank} keeps {p + 1} micro-batches after {text_of(*action)}; allowed are "
                f"{p}, as many as there are ranks",
                "a micro-batch is kept from its F until its W, not until its I: do a W before the "
                "next F where the memory is full",
            )
    bubble, of_old = timeline.seconds - WORK * m, WORK * (p - 1)
    if bubble > of_old / 2:
        yield (
            f"a step takes {timeline.seconds:g}; allowed are {WORK * m + of_old / 2:g}. (1F1B "
            f"takes {WORK * m + of_old:g}, and {WORK * m:g} would be without any bubble.)",
            why_slow(of, timeline),
        )


def why_slow(of, timeline) -> str:
    for rank, lead in enumerate(of.leads):
        if lead != min(of.ranks - rank, of.m):
            return (
                f"rank {rank} does {lead} F before anything else. Under 1F1B it is as many as it "
                "takes until the first gradient can be back: one for each rank after it, and one "
                "more"
            )
    if found := idle_with_work(timeline):
        rank, action, idle = found
        return (
            f"rank {rank} waits for {idle:g} before {text_of(*action)}, though it has done an I "
            "whose W is still to come: a W fits in there"
        )
    return (
        "look at the picture: plot_schedule(rows). Where does a rank wait for an I of the rank "
        "after it, and what is that one doing meanwhile?"
    )


SIGNS = [
    BELOW_0,
    ("there are forwards, and nothing goes back: each F needs an I and a W",
     lambda of: {*"".join(of.kinds)} == {"F"}),
    ("the first halves are there, the weights' gradients are not: each I needs its W, which may "
     "come later", lambda of: "I" in "".join(of.kinds) and "W" not in "".join(of.kinds)),
    ("micro-batches are counted from 0 on: 0, 1, …, microbatches - 1",
     lambda of: bool(of.rows[0]) and {i for row in of.rows for _, i, _ in row}
     == {*range(1, of.m + 1)}),
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Contest(Schedule):
    """Any schedule that is short enough, and keeps little enough."""

    def examine(self, answer):
        for case, sizes in self.cases.items():
            for ranks, m in sizes:
                now = told_case(ranks, m)
                of = Rows(rows_from(now, answer, ranks, m), ranks, m)
                for what, why in self.faults_of(of):
                    raise Wrong(now, what, self.misconception(of) or why)
            timeline = simulate(of.rows)
            yield (
                f"{case}: {timeline.seconds:g}, where 1F1B takes {WORK * (m + ranks - 1):g}; "
                f"at most {timeline.most_kept} kept"
            )

    def faults_of(self, of):
        if what := offence(of.rows, of.m):
            yield what, ""
        else:
            yield from self.faults(of)

    def misconception(self, of) -> str:
        known = [
            why
            for why, function in self.mistakes
            if self.right(of.ranks, of.m, function) == of.rows
        ]
        known += [why for why, shows in self.signs if outcome_of(shows, of).value]
        return next(iter(known), "")


EXERCISE = Contest(
    "8.13",
    "my_schedule",
    cases=cases_of((4, 8), (3, 3), (2, 5), (6, 12), (1, 4), (8, 9)),
    truth=in_letters,
    faults=faults,
    mistakes=MISTAKES,
    signs=SIGNS,
    hints=(
        "Begin with 1F1B, and write I and W in place of each B. Look at it: "
        "plot_schedule(simulate(rows)). Why does rank 0 wait?",
        "Under 1F1B rank r of n keeps n - r micro-batches, and n are allowed. So how many W can "
        "rank r put off?",
        "As long as there is room, a rank does no W. When it is full, each I is followed by the "
        "oldest W. When the forwards are done, I and W go on in turns.",
    ),
)

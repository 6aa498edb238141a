"""A schedule that beats 1F1B, with memory for as many micro-batches as 1F1B's first rank keeps."""

from dataclasses import dataclass

from coursekit.kit import Wrong
from coursekit.kit.results import outcome_of
from pedagogy_lib.schedules.simulations import simulate
from pedagogy_lib.schedules.timelines import count_in_flight, text_of

from ..shared.generators import BELOW_0, Rows, Schedule, cases_of, format_case, offence, rows_from
from .truth import MISTAKES, build_row

WORK = 3.0  # a forward and both halves of a backward take 1 each


def count_owed(row) -> list[int]:
    """Return how many W could be done after each action of a row."""
    kinds = [kind for kind, *_ in row]
    return [kinds[: k + 1].count("I") - kinds[: k + 1].count("W") for k in range(len(kinds))]


def idle_with_work(timeline):
    """Return (rank, action, duration) of the first wait in which a rank could do a W, or None."""
    for rank, (row, spans) in enumerate(zip(timeline.rows, timeline.spans)):
        owed = count_owed(row)
        for k in range(1, len(row)):
            idle = spans[k][0] - spans[k - 1][1]
            if idle > 0.5 and owed[k - 1] > 0:
                return rank, row[k], idle
    return None


def faults(of):
    p, m = of.ranks, of.m
    timeline = simulate(of.rows)
    for rank, row in enumerate(of.rows):
        kept = count_in_flight(row)
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
    """An exercise for any schedule that is short enough and keeps few enough micro-batches."""

    def examine(self, answer):
        for case, sizes in self.cases.items():
            for ranks, m in sizes:
                now = format_case(ranks, m)
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
            if self.make_rows(of.ranks, of.m, function) == of.rows
        ]
        known += [why for why, shows in self.signs if outcome_of(shows, of).value]
        return next(iter(known), "")


EXERCISE = Contest(
    "my_schedule",
    cases=cases_of((4, 8), (3, 3), (2, 5), (6, 12), (1, 4), (8, 9)),
    truth=build_row,
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

"""The micro-batches that each rank computes: all of them, each once, as evenly as possible."""

from collections import Counter

from coursekit.kit import RankExercise, Wrong, complains
from coursekit.kit.single_rank import LocalExercise

from .cases import deal, deal_on_rank, make_case
from .truth import NO_GROUP, ON_RANKS, REMEMBERS, explain, faults


class DealExercise(LocalExercise):
    """An exercise whose ranks ask in one process, again in another order, and then as processes.

    An answer that remembers something between calls may be right while all ask the same process.
    """

    def trials(self, answer):
        for trial in super().trials(answer):
            for place in reversed(range(trial.n)):
                trial[place].again = self.ask_again(answer, place, trial.case)
            yield trial
        yield from RankExercise(
            self.name, ON_RANKS, deal_on_rank, [], self.right, (),
            explain=lambda case, error: self.why_it_failed(case, error) or REMEMBERS,
        ).trials(answer)  # fmt: skip

    def ask_again(self, answer, place, case):
        try:
            return self.run_place(answer, place, case)["mine"]
        except Wrong as wrong:
            raise Wrong(wrong.case, f"asked again, {wrong.what}", REMEMBERS) from None


EXERCISE = DealExercise(
    "microbatches_of",
    lab="restart",
    cases=[  # (1, 4) is not the first, because with one rank many mistakes look alike
        make_case(n, m)
        for n, m in (
            (2, 4),
            (3, 12),
            (1, 4),
            (4, 12),
            (3, 7),
            (4, 10),
            (5, 12),
            (8, 12),
            (5, 3),
            (4, 1),
        )
    ],
    work=deal,
    facts=[complains(faults)],
    right=lambda trial: " and ".join(
        f"{ranks} × {size}"
        for size, ranks in sorted(Counter(map(len, trial.collect_values("mine"))).items())
    ),
    explain=explain,
    errors={
        "positional argument": "it is called with three numbers: rank, n, m",
        "process group": NO_GROUP,
    },
    hints=(
        "Deal them as you deal cards: the first to rank 0, the second to rank 1, …",
        "Rank 0 of 3 gets 0, 3, 6, …; rank 1 gets 1, 4, 7, …",
        "range has a third argument: the stride.",
    ),
)

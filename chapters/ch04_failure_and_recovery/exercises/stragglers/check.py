"""The ranks that compute for longer than the others, found in times that vary."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth


def steps_of(*ranks) -> list[list[float]]:
    """Return the times of all ranks for each step; given are those of all steps for each rank."""
    return [list(of_step) for of_step in zip(*ranks)]


USUAL = [2.0, 2.2, 1.9, 2.1, 2.0, 2.3, 1.8]

SLOW = [3 * second for second in USUAL]

HICCUP = [2.0, 2.1, 40.0, 1.9, 2.0, 2.2, 2.1]

LATELY = [2.0, 2.0, 2.1, 1.9, 8.0, 8.2, 8.1]

AT_THE_END = [2.0, 2.1, 1.9, 2.2, 2.0, 2.1, 9.0]

FIVE = [2.0] * 3 + [3.0] * 4

SHORT = [1.0] * 3 + [2.0] * 4

CASES = {
    "all alike": (steps_of(USUAL, USUAL[::-1], USUAL, USUAL[::-1]),),
    "rank 2 is slow": (steps_of(USUAL, USUAL, SLOW, USUAL),),
    "rank 0 is slow": (steps_of(SLOW, USUAL, USUAL),),
    "rank 1 has one hiccup": (steps_of(USUAL, HICCUP, USUAL),),
    "all have one, each in another step": (
        steps_of(HICCUP, HICCUP[1:] + HICCUP[:1], HICCUP[2:] + HICCUP[:2]),),
    "rank 2 is slow in the last step alone": (steps_of(USUAL, USUAL, AT_THE_END),),
    "rank 1 has been slow for 3 of 7 steps": (steps_of(USUAL, LATELY, USUAL),),
    "ranks 0 and 4 are slow": (
        steps_of(SLOW, USUAL, USUAL, USUAL, [5 * second for second in USUAL]),),
    "four steps, rank 2 slow in two of them": (steps_of([2.0] * 4, [2.0] * 4, [2, 2, 4.4, 4.4]),),
    "four steps, rank 2 a little slow in two": (steps_of([2.0] * 4, [2.0] * 4, [2, 2, 3.9, 3.9]),),
    "four ranks, half of them faster": ([[2.0, 2.0, 4.0, 5.0]],),
    "all are slow in four of seven steps": (
        steps_of(SHORT, SHORT, [1.6, 1.6, 1.6, 3.1, 2.0, 2.0, 2.0]),),
    "twenty steps, rank 1 slow in the first twelve": (
        steps_of([2.0] * 20, [8.0] * 12 + [2.0] * 8, [2.0] * 20),),
    "one step": ([[1.0, 1.25, 4.0]],),
    "exactly 1.5 times as long": ([[2.0, 3.0, 2.0]],),
    "one is very slow, and one a little": (
        steps_of(USUAL, [50 * x for x in USUAL], [1.8 * x for x in USUAL], USUAL, USUAL),),
    "each is slower than the one before": ([[2.0, 3.2, 4.6]],),
    "two ranks, one slow": (steps_of(USUAL, [4 * x for x in USUAL]),),
    "one is fast": (steps_of(USUAL, USUAL, [x / 4 for x in USUAL]),),
    "asked for 4 times as long": (steps_of(USUAL, USUAL, SLOW), 4.0),
    "asked for 1.2 times as long": (steps_of(USUAL, USUAL, [1.3 * x for x in USUAL]), 1.2),
    "rank 2 varies": (steps_of([2.0] * 7, [2.0] * 7, FIVE), 1.4),
}  # fmt: skip

EXERCISE = Formula(
    "stragglers",
    lab="finding_out",
    cases={case: [call] for case, call in CASES.items()},
    truth=truth,
    unit="",
    asked="a list of ranks",
    shape="return a list of ranks, such as [2]",
    same=lambda got, wanted: isinstance(got, list | tuple) and list(got) == list(wanted),
    mistakes=MISTAKES,
    hints=(
        "seconds[k][rank] is the time of a rank in step k. How do you get all times of one rank?",
        "zip(*seconds) gives, for each rank, the times of all steps; `median` is imported.",
        "usual = [median(of_rank) for of_rank in zip(*seconds)], and median(usual) is what is "
        "usual for all.",
    ),
)  # fmt: skip

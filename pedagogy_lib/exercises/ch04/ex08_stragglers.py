"""Which ranks compute for longer than the others, told from times that vary."""

from ..kit import Formula


def steps_of(*ranks) -> list[list[float]]:
    """For each step, the times of all ranks; given is, for each rank, the times of all steps."""
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


def middle(values) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def mean(values) -> float:
    values = list(values)
    return sum(values) / len(values)


def columns(seconds) -> list[list[float]]:
    return [[step[rank] for step in seconds] for rank in range(len(seconds[0]))]


def rule(of_rank=middle, of_all=middle, over=lambda mine, limit: mine > limit, fixed=None):
    """A function that finds ranks by such statistics."""

    def found(seconds, times=1.5):
        usual = [of_rank(column) for column in columns(seconds)]
        limit = (fixed or times) * of_all(usual)
        return [rank for rank, mine in enumerate(usual) if over(mine, limit)]

    return found


truth = rule()


def lower(values) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def upper(values) -> float:
    return sorted(values)[len(values) // 2]


def slowest_first(seconds, times=1.5):
    usual = [middle(column) for column in columns(seconds)]
    return sorted(truth(seconds, times), key=lambda rank: -usual[rank])


def slow_in_most_steps(seconds, times=1.5):
    slow = [sum(step[rank] > times * middle(step) for step in seconds)
            for rank in range(len(seconds[0]))]  # fmt: skip
    return [rank for rank, steps in enumerate(slow) if steps > len(seconds) / 2]


def lately(seconds, times=1.5):
    return truth(seconds[-10:], times)


def slowest(seconds, times=1.5):
    usual = [middle(column) for column in columns(seconds)]
    return [usual.index(max(usual))]


def by_steps(seconds, times=1.5):
    """Rows and columns in each other's place."""
    usual = [middle(step) for step in seconds]
    return [rank for rank, mine in enumerate(usual) if mine > times * middle(usual)]


def of_the_others(seconds, times=1.5):
    usual = [middle(column) for column in columns(seconds)]
    return [k for k, mine in enumerate(usual)
            if mine > times * middle(usual[:k] + usual[k + 1 :] or [mine])]  # fmt: skip


def all_numbers(seconds, times=1.5):
    usual = [middle(column) for column in columns(seconds)]
    limit = times * middle([x for step in seconds for x in step])
    return [rank for rank, mine in enumerate(usual) if mine > limit]


TWO_MIDDLE = (
    "of an even number of values the median is the mean of the two in the middle. This takes one "
    "of them, as torch.median takes the lower one."
)

EXERCISE = Formula(
    "4.8",
    "stragglers",
    lab="finding_out",
    cases={case: [call] for case, call in CASES.items()},
    truth=truth,
    unit="",
    asked="a list of ranks",
    shape="return a list of ranks, such as [2]",
    same=lambda got, wanted: isinstance(got, list | tuple) and list(got) == list(wanted),
    mistakes=[
        ("of each rank this takes the mean: one long step is enough to make it large. Take the "
         "median over the steps.", rule(of_rank=mean)),
        ("the ranks' medians are compared with their mean: that of one very slow rank makes it so "
         "large that another one is not found. Take the median of the medians.",
         rule(of_all=mean)),
        ("both are means: one hiccup, or one slow rank, changes them. Take medians.",
         rule(of_rank=mean, of_all=mean)),
        ("compared with the fastest rank, all others are slow as soon as one is fast. Compare with "
         "the median of the medians.", rule(of_all=min)),
        ("asked is more than `times` the usual time; exactly so much is not more.",
         rule(over=lambda mine, limit: mine >= limit)),
        ("`times` says how much longer; this takes 1.5 whatever it is.", rule(fixed=1.5)),
        ("only the last step counts here: one hiccup in it, and a rank is accused.",
         rule(of_rank=lambda column: column[-1])),
        ("the longest step of each rank counts here: every rank has a hiccup one day.",
         rule(of_rank=max)),
        ("the shortest step of each rank counts here: a rank that is slow most of the time is not "
         "found. Take the median.", rule(of_rank=min)),
        ("the slowest rank is always named, also if all are alike.", slowest),
        ("`seconds` has a list for each step, and in it a time for each rank: "
         "zip(*seconds) gives a tuple for each rank.", by_steps),
        ("each rank is compared with the others alone; asked is the median of all medians.",
         of_the_others),
        ("the usual time is the median of the ranks' medians, not of all times together.",
         all_numbers),
        *((TWO_MIDDLE, rule(of_rank=mine, of_all=of_all))
          for mine in (lower, upper, middle) for of_all in (lower, upper, middle)
          if mine is not middle or of_all is not middle),
        ("the ranks are right, but not in order: sorted by their numbers, and not by their times.",
         slowest_first),
        ("counted are the steps in which a rank was slow. Asked is its median over all steps: no "
         "step is compared by itself.", slow_in_most_steps),
        ("only the last ten steps are looked at: all steps that are given count.", lately),
        ("these are the ranks that are not slow.", rule(over=lambda mine, limit: mine <= limit)),
    ],
    hints=(
        "seconds[k][rank] is the time of a rank in step k. How do you get all times of one rank?",
        "zip(*seconds) gives, for each rank, the times of all steps; `median` is imported.",
        "usual = [median(of_rank) for of_rank in zip(*seconds)], and median(usual) is what is "
        "usual for all.",
    ),
)  # fmt: skip

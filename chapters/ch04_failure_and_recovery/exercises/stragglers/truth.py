"""The right results, and the results of known mistakes."""


def middle(values) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def mean(values) -> float:
    values = list(values)
    return sum(values) / len(values)


def columns(seconds) -> list[list[float]]:
    return [[step[rank] for step in seconds] for rank in range(len(seconds[0]))]


def rule(of_rank=middle, of_all=middle, over=lambda mine, limit: mine > limit, fixed=None):
    """Return a function that finds ranks by the given statistics."""

    def find_ranks(seconds, times=1.5):
        usual = [of_rank(column) for column in columns(seconds)]
        limit = (fixed or times) * of_all(usual)
        return [rank for rank, mine in enumerate(usual) if over(mine, limit)]

    return find_ranks


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


def swap_axes(seconds, times=1.5):
    """Find ranks with rows and columns swapped."""
    usual = [middle(step) for step in seconds]
    return [rank for rank, mine in enumerate(usual) if mine > times * middle(usual)]


def compare_with_others(seconds, times=1.5):
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

MISTAKES = [
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
     "zip(*seconds) gives a tuple for each rank.", swap_axes),
    ("each rank is compared with the others alone; asked is the median of all medians.",
     compare_with_others),
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
]  # fmt: skip

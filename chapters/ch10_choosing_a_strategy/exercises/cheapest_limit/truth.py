"""The right results, and the results of known mistakes."""

from itertools import pairwise


def cost(limit, shares, failed, missed, alarm) -> float:
    total = 0.0
    for share, has_failed in zip(shares, failed, strict=True):
        if has_failed and not share > limit:
            total += missed
        if share > limit and not has_failed:
            total += alarm
    return total


def cheapest(limits, cost_of):
    """Return the limit with the lowest cost, the smallest of equal ones."""
    best = None
    for limit in sorted(limits):
        if best is None or cost_of(limit) < cost_of(best):
            best = limit
    return best


def truth(shares, failed, limits, missed, alarm):
    return cheapest(limits, lambda limit: cost(limit, shares, failed, missed, alarm))


def swap_costs(shares, failed, limits, missed, alarm):
    return truth(shares, failed, limits, alarm, missed)


def count_mistakes(shares, failed, limits, missed, alarm):
    return truth(shares, failed, limits, 1, 1)


def largest(shares, failed, limits, missed, alarm):
    return cheapest([-one for one in limits],
                    lambda limit: cost(-limit, shares, failed, missed, alarm)) * -1  # fmt: skip


def first_of_equal(shares, failed, limits, missed, alarm):
    return min(limits, key=lambda limit: cost(limit, shares, failed, missed, alarm))


def last_of_equal(shares, failed, limits, missed, alarm):
    return first_of_equal(shares, failed, limits[::-1], missed, alarm)


def fail_at_limit(shares, failed, limits, missed, alarm):
    below = [share + 1e-9 for share in shares]
    return truth(below, failed, limits, missed, alarm)


def the_cost(shares, failed, limits, missed, alarm):
    return min(cost(limit, shares, failed, missed, alarm) for limit in limits)


def dearest(shares, failed, limits, missed, alarm):
    return cheapest(limits, lambda limit: -cost(limit, shares, failed, missed, alarm))


def ignore_alarms(shares, failed, limits, missed, alarm):
    return truth(shares, failed, limits, missed, 0)


def alarms_alone(shares, failed, limits, missed, alarm):
    return truth(shares, failed, limits, 0, alarm)


def position(shares, failed, limits, missed, alarm):
    return limits.index(truth(shares, failed, limits, missed, alarm))


def start_minimum_at(start, at=lambda limits: 0):
    """Return a search that considers only limits whose cost is below a start value."""

    def mistaken(shares, failed, limits, missed, alarm):
        cost_of = lambda limit: cost(limit, shares, failed, missed, alarm)  # noqa: E731
        found = [limit for limit in limits if cost_of(limit) < start(shares)]
        return cheapest(found, cost_of) or at(limits)

    return mistaken


def first_valley(rises):
    """Return a search that ends before the first limit that costs more."""

    def mistaken(shares, failed, limits, missed, alarm):
        costs = {limit: cost(limit, shares, failed, missed, alarm) for limit in sorted(limits)}
        pairs = list(costs.items())
        ends = (a for (a, here), (_, after) in pairwise(pairs) if rises(here, after))
        return next(ends, pairs[-1][0])

    return mistaken


def once_each(shares, failed, limits, missed, alarm):
    def cost_of_limit(limit):
        runs = list(zip(shares, failed))
        return missed * any(bad and share <= limit for share, bad in runs) + alarm * any(
            share > limit and not bad for share, bad in runs
        )

    return cheapest(limits, cost_of_limit)


def sort_shares(shares, failed, limits, missed, alarm):
    return truth(sorted(shares), failed, limits, missed, alarm)


def other_way_round(shares, failed, limits, missed, alarm):
    return truth(shares, [not one for one in failed], limits, missed, alarm)


MISTAKES = [
    ("the costs are the other way round: missed is for a run that fails although it was "
     "expected to fit.", swap_costs),
    ("this counts mistakes. The two kinds do not cost the same: weigh them.", count_mistakes),
    ("a run is expected to fail if its share is greater than the limit; an equal share still "
     "fits.", fail_at_limit),
    ("of limits with equal costs the smallest is asked, and this is the largest.", largest),
    ("of limits with equal costs the smallest is asked, wherever it stands in the list.",
     first_of_equal),
    ("of limits with equal costs the smallest is asked, wherever it stands in the list.",
     last_of_equal),
    ("this is the least cost; asked is the limit that has it.", the_cost),
    ("this is the place in the list; asked is the limit that stands there.", position),
    ("this is the limit with the highest cost: a comparison is the wrong way round, or max "
     "stands where min should.", dearest),
    ("the costs may fall again behind a limit that costs more: look at all limits.",
     first_valley(lambda here, after: after > here)),
    ("the costs may fall again behind a limit that costs more: look at all limits.",
     first_valley(lambda here, after: after >= here)),
    ("each run with a mistake costs something, and not each kind of mistake once.", once_each),
    ("share and outcome of a run stand at the same place of both lists: sort neither alone.",
     sort_shares),
    *(("a total cost may be any number: a start value that is too small hides all limits.",
       start_minimum_at(start, at))
      for at in (lambda limits: 0, min, lambda limits: limits[0])
      for start in (len, lambda shares: 1, lambda shares: 10, lambda shares: 100,
                    lambda shares: 1000, lambda shares: 10**4)),
    ("false alarms cost something too: with missed failures alone, the smallest limit would "
     "always win.", ignore_alarms),
    ("missed failures cost something too: with false alarms alone, the largest limit would "
     "always win.", alarms_alone),
    ("failed is True for runs that did not fit.", other_way_round),
]  # fmt: skip

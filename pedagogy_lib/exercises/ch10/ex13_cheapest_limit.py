"""From which share of a GPU's memory on to expect a failure. The truth adds up run after run."""

from itertools import pairwise

from ..kit import Formula


def cost(limit, shares, failed, missed, alarm) -> float:
    total = 0.0
    for share, has_failed in zip(shares, failed, strict=True):
        if has_failed and not share > limit:
            total += missed
        if share > limit and not has_failed:
            total += alarm
    return total


def cheapest(limits, cost_of):
    """Of equal ones the smallest."""
    best = None
    for limit in sorted(limits):
        if best is None or cost_of(limit) < cost_of(best):
            best = limit
    return best


def truth(shares, failed, limits, missed, alarm):
    return cheapest(limits, lambda limit: cost(limit, shares, failed, missed, alarm))


def swapped(shares, failed, limits, missed, alarm):
    return truth(shares, failed, limits, alarm, missed)


def counted(shares, failed, limits, missed, alarm):
    return truth(shares, failed, limits, 1, 1)


def largest(shares, failed, limits, missed, alarm):
    return cheapest([-one for one in limits],
                    lambda limit: cost(-limit, shares, failed, missed, alarm)) * -1  # fmt: skip


def first_of_equal(shares, failed, limits, missed, alarm):
    return min(limits, key=lambda limit: cost(limit, shares, failed, missed, alarm))


def last_of_equal(shares, failed, limits, missed, alarm):
    return first_of_equal(shares, failed, limits[::-1], missed, alarm)


def from_limit_on(shares, failed, limits, missed, alarm):
    below = [share + 1e-9 for share in shares]
    return truth(below, failed, limits, missed, alarm)


def the_cost(shares, failed, limits, missed, alarm):
    return min(cost(limit, shares, failed, missed, alarm) for limit in limits)


def dearest(shares, failed, limits, missed, alarm):
    return cheapest(limits, lambda limit: -cost(limit, shares, failed, missed, alarm))


def missed_alone(shares, failed, limits, missed, alarm):
    return truth(shares, failed, limits, missed, 0)


def alarms_alone(shares, failed, limits, missed, alarm):
    return truth(shares, failed, limits, 0, alarm)


def position(shares, failed, limits, missed, alarm):
    return limits.index(truth(shares, failed, limits, missed, alarm))


def from_a_start(start, at=lambda limits: 0):
    """Only limits below a start value count."""

    def mistaken(shares, failed, limits, missed, alarm):
        cost_of = lambda limit: cost(limit, shares, failed, missed, alarm)  # noqa: E731
        found = [limit for limit in limits if cost_of(limit) < start(shares)]
        return cheapest(found, cost_of) or at(limits)

    return mistaken


def first_valley(rises):
    """Ends before the first limit that costs more."""

    def mistaken(shares, failed, limits, missed, alarm):
        costs = {limit: cost(limit, shares, failed, missed, alarm) for limit in sorted(limits)}
        pairs = list(costs.items())
        ends = (a for (a, here), (_, after) in pairwise(pairs) if rises(here, after))
        return next(ends, pairs[-1][0])

    return mistaken


def once_each(shares, failed, limits, missed, alarm):
    def of(limit):
        runs = list(zip(shares, failed))
        return missed * any(bad and share <= limit for share, bad in runs) + alarm * any(
            share > limit and not bad for share, bad in runs
        )

    return cheapest(limits, of)


def of_sorted_shares(shares, failed, limits, missed, alarm):
    return truth(sorted(shares), failed, limits, missed, alarm)


def other_way_round(shares, failed, limits, missed, alarm):
    return truth(shares, [not one for one in failed], limits, missed, alarm)


SHARES = [0.35, 0.7, 0.8, 0.85, 0.9, 0.95, 1.05, 1.2, 1.6]
FAILED = [False, False, True, False, True, False, True, True, True]
LIMITS = [0.5, 0.75, 0.82, 0.88, 0.92, 1.0, 1.1]

EXERCISE = Formula(
    "10.13",
    "cheapest_limit",
    cases={
        "three runs": [([0.5, 0.9, 1.1], [False, True, True], [0.4, 0.8, 1.05], 10, 1)],
        "both mistakes cost the same": [
            (SHARES, FAILED, LIMITS, 1, 1),
            ([0.5, 0.6, 0.7, 0.8, 1.1], [False, True, False, False, True],
             [0.4, 0.55, 0.65, 0.75, 1.0], 1, 1)],
        "a missed failure costs ten times as much": [(SHARES, FAILED, LIMITS, 10, 1)],
        "a false alarm costs ten times as much": [
            (SHARES, FAILED, LIMITS, 1, 10), (SHARES[2:], FAILED[2:], LIMITS, 1, 10),
            ([0.5, 0.6, 0.7, 0.8], [True, True, True, False], [0.4, 0.55, 0.65, 0.75, 0.9], 1, 7)],
        "runs in any order": [
            ([1.2, 0.7, 0.95, 0.35, 0.8], [True, False, False, False, True], LIMITS, 3, 2)],
        "costs in dollars": [
            (SHARES, FAILED, LIMITS, 52_000.0, 7_500.0),
            (SHARES, FAILED, LIMITS, 7_500.0, 52_000.0)],
        "some of both, or five of one": [
            ([0.75, 0.76, 0.77, 0.78, 0.8, 1.0, 1.2],
             [False, False, False, False, True, False, True], [0.7, 0.9], 3, 1)
        ],
        "limits in any order": [(SHARES, FAILED, [1.0, 0.82, 1.1, 0.75, 0.5], 2, 3)],
        "a share equal to a limit": [([0.6, 0.8, 0.8, 1.0], [False, False, False, True],
                                      [0.7, 0.8, 0.9], 5, 2)],
        "a failure exactly at a limit": [([0.6, 0.8, 1.0], [False, True, True],
                                          [0.5, 0.8, 0.9], 5, 2)],
        "equal costs": [([0.2, 0.9, 1.3], [False, True, True], [0.8, 0.4, 0.6, 1.0], 3, 1)],
        "nothing failed": [([0.2, 0.5, 0.7], [False] * 3, [0.3, 0.6, 0.9, 1.2], 4, 1)],
        "everything failed": [([0.9, 1.1, 1.4], [True] * 3, [0.95, 0.85, 1.0], 1, 4)],
    },
    truth=truth,
    mistakes=[
        ("the costs are the other way round: missed is for a run that fails although it was "
         "expected to fit.", swapped),
        ("this counts mistakes. The two kinds do not cost the same: weigh them.", counted),
        ("a run is expected to fail if its share is greater than the limit; an equal share still "
         "fits.", from_limit_on),
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
         of_sorted_shares),
        *(("a total cost may be any number: a start value that is too small hides all limits.",
           from_a_start(start, at))
          for at in (lambda limits: 0, min, lambda limits: limits[0])
          for start in (len, lambda shares: 1, lambda shares: 10, lambda shares: 100,
                        lambda shares: 1000, lambda shares: 10**4)),
        ("false alarms cost something too: with missed failures alone, the smallest limit would "
         "always win.", missed_alone),
        ("missed failures cost something too: with false alarms alone, the largest limit would "
         "always win.", alarms_alone),
        ("failed is True for runs that did not fit.", other_way_round),
    ],
    asked="a number",
    shape="return one of the limits",
    hints=(
        "For one limit: a run is expected to fail if its share is greater. Compare that with what "
        "happened, run by run.",
        "Two counts: failed, but expected to fit; and fitted, but expected to fail. Each has its "
        "price.",
        "Among limits of equal cost the smallest: compare pairs of cost and limit.",
    ),
)  # fmt: skip

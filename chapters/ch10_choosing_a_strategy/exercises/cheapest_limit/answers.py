# %% right · with numpy
def cheapest_limit(shares, failed, limits, missed, alarm):
    import numpy as np
    limits, shares, failed = np.sort(limits), np.array(shares), np.array(failed)
    expected = shares[None] > limits[:, None]
    costs = missed * (failed & ~expected).sum(1) + alarm * (expected & ~failed).sum(1)
    return limits[np.argmin(costs)]

# %% right · a dict of costs
def cheapest_limit(shares, failed, limits, missed, alarm):
    costs = {}
    for limit in sorted(limits, reverse=True):
        total = 0
        for share, is_bad in zip(shares, failed):
            if is_bad and share <= limit:
                total += missed
            elif not is_bad and share > limit:
                total += alarm
        costs[total] = limit
    return costs[min(costs)]

# %% wrong · the other way round
# -     return min(limits, key=lambda limit: (cost(limit), limit))
# +     missed, alarm = alarm, missed
# +     return min(limits, key=lambda limit: (cost(limit), limit))

# %% wrong · weigh them
def cheapest_limit(shares, failed, limits, missed, alarm):
    def mistakes(limit):
        return sum((share > limit) != bad for share, bad in zip(shares, failed))
    return min(sorted(limits), key=mistakes)

# %% wrong · an equal share still fits
def cheapest_limit(shares, failed, limits, missed, alarm):
    def cost(limit):
        return sum(missed if bad else alarm
                   for share, bad in zip(shares, failed) if (share >= limit) != bad)
    return min(sorted(limits), key=cost)

# %% wrong · wherever it stands in the list
# -     return min(limits, key=lambda limit: (cost(limit), limit))
# +     return min(limits, key=cost)

# %% wrong · this is the largest
# -     return min(limits, key=lambda limit: (cost(limit), limit))
# +     return min(limits, key=lambda limit: (cost(limit), -limit))

# %% wrong · asked is the limit that has it
# -     return min(limits, key=lambda limit: (cost(limit), limit))
# +     return min(map(cost, limits))

# %% wrong · false alarms cost something
def cheapest_limit(shares, failed, limits, missed, alarm):
    def cost(limit):
        return sum(missed for share, bad in zip(shares, failed) if bad and share <= limit)
    return min(sorted(limits), key=cost)

# %% wrong · the smallest is asked
def cheapest_limit(shares, failed, limits, missed, alarm):
    best, least = None, float("inf")
    for limit in limits:
        total = 0
        for share, bad in zip(shares, failed):
            total += missed * (bad and share <= limit) + alarm * (not bad and share > limit)
        if total <= least:
            best, least = limit, total
    return best

# %% wrong · and here None
def cheapest_limit(shares, failed, limits, missed, alarm):
    best, least = None, 1000
    for limit in sorted(limits):
        cost = sum(missed for s, bad in zip(shares, failed) if bad and s <= limit)
        cost += sum(alarm for s, bad in zip(shares, failed) if not bad and s > limit)
        if cost < least:
            best, least = limit, cost
    return best

# %% wrong · the costs may fall again
def cheapest_limit(shares, failed, limits, missed, alarm):
    def cost(limit):
        return sum((missed if bad else alarm) for s, bad in zip(shares, failed)
                   if bad != (s > limit))
    ordered = sorted(limits)
    for one, after in zip(ordered, ordered[1:]):
        if cost(after) > cost(one):
            return one
    return ordered[-1]

# %% wrong · sort neither alone
# -         mistakes = [has_failed for share, has_failed in zip(shares, failed)
# +         mistakes = [has_failed for share, has_failed in zip(sorted(shares), failed)

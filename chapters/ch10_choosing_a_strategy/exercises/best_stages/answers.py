# %% right · pairs of sum and slowest
def best_stages(seconds, layers, devices, microbatches):
    fronts = {(0, 0): [(0, 0, ())]}
    for key in sorted(seconds):
        first, end, size = key
        for used in range(devices - size + 1):
            for total, slowest, stages in fronts.get((first, used), []):
                new = (total + seconds[key], max(slowest, seconds[key]), (*stages, key))
                place = fronts.setdefault((end, used + size), [])
                if not any(t <= new[0] and s <= new[1] for t, s, _ in place):
                    place[:] = [o for o in place if not (new[0] <= o[0] and new[1] <= o[1])]
                    place.append(new)
    found = fronts.get((layers, devices), [])
    if not found:
        raise ValueError("none")
    return min(found, key=lambda o: o[0] + (microbatches - 1) * o[1])[2]

# %% right · a table for each limit
def best_stages(seconds, layers, devices, microbatches):
    best = None
    for limit in sorted(set(seconds.values())):
        table = {(layers, 0): (0, [])}
        for key in sorted(seconds, reverse=True):
            first, end, size = key
            if seconds[key] > limit:
                continue
            for left in range(size, devices + 1):
                rest = table.get((end, left - size))
                if rest is not None:
                    new = (seconds[key] + rest[0], [list(key), *rest[1]])
                    if (first, left) not in table or new[0] < table[first, left][0]:
                        table[first, left] = new
        if (0, devices) in table:
            total, stages = table[0, devices]
            if best is None or total + (microbatches - 1) * limit < best[0]:
                best = total + (microbatches - 1) * limit, stages
    if best is None:
        raise ValueError(f"{layers} layers do not go on {devices} devices")
    return best[1]

# %% given
def every_plan(seconds, layers, devices, first=0):
    if first == layers:
        if devices == 0:
            yield []
        return
    for key in seconds:
        if key[0] == first and key[2] <= devices:
            for rest in every_plan(seconds, layers, devices - key[2], key[1]):
                yield [key, *rest]

def least(seconds, layers, devices, cost):
    plans = list(every_plan(seconds, layers, devices))
    if not plans:
        raise ValueError("no plan")
    return min(plans, key=lambda plan: cost([seconds[key] for key in plan]))

# %% wrong · their sum counts, not only the slowest
def best_stages(seconds, layers, devices, microbatches):
    return least(seconds, layers, devices, max)

# %% wrong · the sum alone is what a single micro-batch takes
def best_stages(seconds, layers, devices, microbatches):
    return least(seconds, layers, devices, sum)

# %% wrong · B - 1 others follow, not B
def best_stages(seconds, layers, devices, microbatches):
    return least(seconds, layers, devices, lambda t: sum(t) + microbatches * max(t))

# %% wrong · is right for equal stages
def best_stages(seconds, layers, devices, microbatches):
    return least(seconds, layers, devices, lambda t: (microbatches + len(t) - 1) * max(t))

# %% wrong · is another order
def best_stages(seconds, layers, devices, microbatches):
    return least(seconds, layers, devices, lambda t: (max(t), sum(t)))

# %% wrong · need not be part of the best plan
def best_stages(seconds, layers, devices, microbatches):
    def step(plan):
        times = [seconds[key] for key in plan]
        return sum(times) + (microbatches - 1) * max(times)

    @cache
    def rest(first, left):
        if first == layers:
            return () if left == 0 else None
        found = []
        for key in seconds:
            if key[0] == first and key[2] <= left:
                more = rest(key[1], left - key[2])
                if more is not None:
                    found.append((key, *more))
        return min(found, key=step, default=None)

    plan = rest(0, devices)
    if plan is None:
        raise ValueError("no plan")
    return list(plan)

# %% wrong · all devices are to be used
# -                 return (0, []) if left == 0 else (inf, [])
# +                 return (0, [])

# %% wrong · say so, with raise ValueError
# -     if total == inf:
# -         raise ValueError(f"no plan for {layers} layers on {devices} devices")

# %% wrong · the first one first
# -     return stages
# +     return stages[::-1]

# %% wrong · each needs devices of its own
# -                 return (0, []) if left == 0 else (inf, [])
# -             found = [(inf, [])]
# -             for taken, end, size in begins.get(first, []):
# -                 if size <= left and taken <= limit:
# -                     total, stages = rest(end, left - size)
# +                 return (0, [])
# +             found = [(inf, [])]
# +             for taken, end, size in begins.get(first, []):
# +                 if size <= left and taken <= limit:
# +                     total, stages = rest(end, left)

# %% wrong · asked is a ValueError of yours
# -     total, stages = min(map(cut_within, set(seconds.values())), default=(inf, []))
# +     total, stages = min(map(cut_within, set(seconds.values())))

# %% wrong · the best plan of the first layers
def best_stages(seconds, layers, devices, microbatches):
    step = lambda one: one[0] + (microbatches - 1) * one[1]
    kept = {(0, 0): (0, 0, [])}
    for begin in range(layers):
        for used in range(devices):
            if (begin, used) not in kept:
                continue
            total, slowest, stages = kept[begin, used]
            for (first, end, size), taken in seconds.items():
                if first == begin and used + size <= devices:
                    one = total + taken, max(slowest, taken), [*stages, (first, end, size)]
                    at = end, used + size
                    if at not in kept or step(one) < step(kept[at]):
                        kept[at] = one
    if (layers, devices) not in kept:
        raise ValueError("there is no plan")
    return kept[layers, devices][2]

# %% wrong · wherever it stands: this takes the last one
def best_stages(seconds, layers, devices, microbatches):
    return least(seconds, layers, devices, lambda t: sum(t) + (microbatches - 1) * t[-1])

# %% wrong · in the order of the layers
# -     return stages
# +     return set(stages)

# %% wrong · the same rest is computed again and again [deep]
def best_stages(seconds, layers, devices, microbatches):
    return least(seconds, layers, devices, lambda t: sum(t) + (microbatches - 1) * max(t))

# %% right · a table
def balance(seconds, stages) -> list[int]:
    layers = len(seconds)
    if stages > layers:
        raise ValueError("too few layers")
    ends = [0]
    for second in seconds:
        ends.append(ends[-1] + second)
    table = {(0, 0): (0, ())}
    for stage in range(1, stages + 1):
        for end in range(stage, layers - (stages - stage) + 1):
            table[end, stage] = min(
                (max(table[begin, stage - 1][0], ends[end] - ends[begin]),
                 (*table[begin, stage - 1][1], end - begin))
                for begin in range(end) if (begin, stage - 1) in table
            )
    return table[layers, stages][1]

# %% right · the least limit that can be kept
def balance(seconds, stages) -> list[int]:
    if stages > len(seconds):
        raise ValueError(f"{stages} stages of {len(seconds)} layers")
    sums = sorted({sum(seconds[a:b]) for b in range(len(seconds) + 1) for a in range(b)})

    def fill(limit):
        sizes, total = [0], 0
        for second in seconds:
            if total + second > limit and sizes[-1]:
                sizes.append(0)
                total = 0
            sizes[-1], total = sizes[-1] + 1, total + second
        return sizes

    for limit in sums:
        sizes = fill(limit)
        if len(sizes) <= stages and limit >= max(seconds):
            while len(sizes) < stages:
                place = max(range(len(sizes)), key=sizes.__getitem__)
                sizes[place : place + 1] = [1, sizes[place] - 1]
            return torch.tensor(sizes)

# %% wrong · the slowest stage decides
def balance(seconds, stages) -> list[int]:
    if stages > len(seconds):
        raise ValueError('few')
    return even_sizes(len(seconds), stages)

# %% wrong · stays below the mean
def balance(seconds, stages) -> list[int]:
    sizes, mean, total = [], sum(seconds) / stages, 0
    left = len(seconds)
    for stage in range(stages - 1):
        size = 1
        while size < left - (stages - 1 - stage) and (
            sum(seconds[sum(sizes) : sum(sizes) + size + 1]) <= mean
        ):
            size += 1
        sizes.append(size)
        left -= size
    return [*sizes, left]

# %% wrong · asked is how many layers each one has
# -     return best(0, stages)[1]
# +     sizes = best(0, stages)[1]
# +     return [sum(sizes[: k + 1]) for k in range(stages)]

# %% wrong · at least one layer
# -         for end in range(begin + 1, len(seconds) - stages + 2):
# +         for end in range(begin, len(seconds) + 1):

# %% wrong · Their order is that of the model
# -     if len(seconds) < stages:
# +     seconds = sorted(seconds)
# +     if len(seconds) < stages:

# %% wrong · say so: raise ValueError
# -     if len(seconds) < stages:
# +     if len(seconds) < stages - 99:

# %% wrong · computed again and again
# -     @cache

# %% wrong · nor does a limit go up in steps of 1
def balance(seconds, stages) -> list[int]:
    if stages > len(seconds):
        raise ValueError(f"{stages} stages of {len(seconds)} layers")
    limit = max(seconds)
    while True:
        sizes, total = [0], 0
        for place, second in enumerate(seconds):
            must = len(seconds) - place == stages - len(sizes)
            if sizes[-1] and (total + second > limit or must):
                sizes, total = [*sizes, 0], 0
            sizes[-1], total = sizes[-1] + 1, total + second
        if len(sizes) == stages:
            return sizes
        limit += 1

# %% wrong · the slowest stage alone counts, not all of them
def balance(seconds, stages) -> list[int]:
    if stages > len(seconds):
        raise ValueError(f"{stages} stages of {len(seconds)} layers")

    @cache
    def best(begin, stages):
        if stages == 1:
            return sum(seconds[begin:]) ** 2, [len(seconds) - begin]
        return min(
            (sum(seconds[begin:end]) ** 2 + rest, [end - begin, *sizes])
            for end in range(begin + 1, len(seconds) - stages + 2)
            for rest, sizes in [best(end, stages - 1)]
        )

    return best(0, stages)[1]

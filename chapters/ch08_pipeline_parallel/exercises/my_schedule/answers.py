# %% given
Action = lab("schedules").Action

# %% right · in letters
def my_schedule(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    steady = max(microbatches - ranks + 1, 0)
    letters = "F" * warm_up + "FI" * rank + "FIW" * steady + "IW" * warm_up + "W" * rank
    counts = {"F": 0, "I": 0, "W": 0}
    row = []
    for letter in letters:
        row.append(Action(letter, counts[letter]))
        counts[letter] += 1
    return row

# %% right · as memory allows
def my_schedule(rank, ranks, microbatches):
    begun = back = done = 0
    while done < microbatches:
        if begun < microbatches and begun - back < ranks - rank and begun - done < ranks:
            yield Action("F", begun)
            begun += 1
        elif back < microbatches and (begun < microbatches or back - done <= rank):
            if begun - done < ranks or back - done <= rank:
                yield Action("I", back)
                back += 1
            if begun - done == ranks or begun == microbatches:
                if back - done > rank or back == microbatches:
                    yield Action("W", done)
                    done += 1
        else:
            yield Action("W", done)
            done += 1

# %% right · an event for each time
def my_schedule(rank, ranks, microbatches):
    now, ahead, kept = rank, ranks - rank, []
    row, owed = [], []
    waiting = list(range(microbatches))
    for i in range(microbatches):
        while waiting and len(kept) < ahead:
            kept.append(waiting.pop(0))
            row.append(Action("F", kept[-1]))
        kept.remove(i)
        row.append(Action("I", i))
        owed.append(i)
        if len(owed) > rank:
            row.append(Action("W", owed.pop(0)))
    return row + [Action("W", i) for i in owed]

# %% wrong · this is 1F1B
def my_schedule(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(microbatches):
        if warm_up + i < microbatches:
            yield Action("F", warm_up + i)
        yield Action("B", i)

# %% wrong · a good beginning
def my_schedule(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(microbatches):
        if warm_up + i < microbatches:
            yield Action("F", warm_up + i)
        yield Action("I", i)
        yield Action("W", i)

# %% wrong · all W are at the end
def my_schedule(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    yield from (Action("F", i) for i in range(warm_up))
    for i in range(microbatches):
        if warm_up + i < microbatches:
            yield Action("F", warm_up + i)
        yield Action("I", i)
    yield from (Action("W", i) for i in range(microbatches))

# %% wrong · is kept from its F until its W
def my_schedule(rank, ranks, microbatches):
    for kind in "FIW":
        for i in range(microbatches):
            yield Action(kind, i)

# %% wrong · a W fits in there
def my_schedule(rank, ranks, microbatches):
    kept = owed = 0
    row = []
    warm_up = min(ranks - 1 - rank, microbatches)
    kinds = "F" * warm_up + "FI" * (microbatches - warm_up) + "I" * warm_up
    counts = {"F": 0, "I": 0, "W": 0}
    def do(kind):
        row.append(Action(kind, counts[kind]))
        counts[kind] += 1
    for kind in kinds:
        if kind == "F" and counts["F"] - counts["W"] == ranks:
            do("W")
        do(kind)
    while counts["W"] < microbatches:
        do("W")
    return row

# %% wrong · rank 0 does W0 before I0
def my_schedule(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(microbatches):
        if warm_up + i < microbatches:
            yield Action("F", warm_up + i)
        yield Action("W", i)
        yield Action("I", i)

# %% wrong · each I needs its W
def my_schedule(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(microbatches):
        if warm_up + i < microbatches:
            yield Action("F", warm_up + i)
        yield Action("I", i)

# %% wrong · who has room?
def my_schedule(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    off = min(ranks - 1 - rank, microbatches)
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(microbatches):
        if warm_up + i < microbatches:
            yield Action("F", warm_up + i)
        yield Action("I", i)
        if i >= off:
            yield Action("W", i - off)
    for i in range(microbatches - off, microbatches):
        yield Action("W", i)

# %% wrong · the last ranks still have room for more
def my_schedule(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    off = min(rank // 2, microbatches)
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(microbatches):
        if warm_up + i < microbatches:
            yield Action("F", warm_up + i)
        yield Action("I", i)
        if i >= off:
            yield Action("W", i - off)
    for i in range(microbatches - off, microbatches):
        yield Action("W", i)

# %% wrong · the third part is the chunk
def my_schedule(rank, ranks, microbatches):
    for chunk in (0, 1):
        for i in range(microbatches):
            yield Action("F", i, chunk)

# %% wrong · rank 0 does 1 F before anything else
def my_schedule(rank, ranks, microbatches):
    for i in range(microbatches):
        yield Action("F", i)
        yield Action("I", i)
        yield Action("W", i)

# %% wrong · only one W is put off
def my_schedule(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    off = min(rank, 1, microbatches)
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(microbatches):
        if warm_up + i < microbatches:
            yield Action("F", warm_up + i)
        yield Action("I", i)
        if i >= off:
            yield Action("W", i - off)
    for i in range(microbatches - off, microbatches):
        yield Action("W", i)

# %% right · the solution
def gpipe(rank, ranks, microbatches):
    for kind in "FB":
        for i in range(microbatches):
            yield Action(kind, i)

# %% right · a list
def gpipe(rank, ranks, microbatches):
    return [Action(kind, i) for kind in "FB" for i in range(microbatches)]

# %% right · an iterator
def gpipe(rank, ranks, microbatches):
    numbers, kinds = [*range(microbatches)], "F" * microbatches
    return map(Action, kinds + kinds.replace("F", "B"), numbers * 2)

# %% right · two loops, by name
def gpipe(rank, ranks, microbatches):
    i = 0
    while i < microbatches:
        yield Action(kind="F", microbatch=i, chunk=0)
        i += 1
    yield from (Action("B", i) for i in range(microbatches))

# %% wrong · only one rank at a time has
def gpipe(rank, ranks, microbatches):
    for i in range(microbatches):
        yield Action("F", i)
        yield Action("B", i)

# %% wrong · the backwards come in the opposite order
def gpipe(rank, ranks, microbatches):
    for i in range(microbatches):
        yield Action("F", i)
    for i in reversed(range(microbatches)):
        yield Action("B", i)

# %% wrong · nothing goes back
def gpipe(rank, ranks, microbatches):
    for i in range(microbatches):
        yield Action("F", i)

# %% wrong · the loop has to go over the micro-batches
# -         for i in range(microbatches):
# +         for i in range(ranks):

# %% wrong · micro-batches are counted from 0 on
# -         for i in range(microbatches):
# +         for i in range(1, microbatches + 1):

# %% wrong · F0 is only how it prints itself
# -             yield Action(kind, i)
# +             yield f"{kind}{i}"

# %% wrong · a pipeline asks for action.kind
# -             yield Action(kind, i)
# +             yield kind, i

# %% wrong · the third part is the chunk
# -             yield Action(kind, i)
# +             yield Action(kind, i, rank)

# %% wrong · `yield` gives it, and goes on
# -             yield Action(kind, i)
# +             return Action(kind, i)

# %% wrong · give each action with `yield`
def gpipe(rank, ranks, microbatches):
    rows = [Action(kind, i) for kind in "FB" for i in range(microbatches)]

# %% wrong · yield one action at a time
def gpipe(rank, ranks, microbatches):
    yield [Action("F", i) for i in range(microbatches)]
    yield [Action("B", i) for i in range(microbatches)]

# %% wrong · the kind comes first
# -             yield Action(kind, i)
# +             yield Action(i, kind)

# %% wrong · that is for the zero bubble
# -     for kind in "FB":
# +     for kind in "FIW":

# %% wrong · there is a loop that never ends
def gpipe(rank, ranks, microbatches):
    while True:
        yield Action("F", 0)

# %% wrong · that is for exercise 8.4
def gpipe(rank, ranks, microbatches):
    warm_up = min(ranks - rank, microbatches)
    yield from (Action("F", i) for i in range(warm_up))
    for i in range(microbatches):
        yield Action("B", i)
        if i + warm_up < microbatches:
            yield Action("F", i + warm_up)

# %% wrong · does a `range` begin below 0
def gpipe(rank, ranks, microbatches):
    for kind in 'FB':
        for i in range(-1, microbatches):
            yield Action(kind, i)

# %% wrong · Action("F", 0)
def gpipe(rank, ranks, microbatches):
    yield Action("F")

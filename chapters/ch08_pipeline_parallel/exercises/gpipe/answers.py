# %% right · a list
def gpipe(rank, ranks, microbatches):
    return [Action(kind, i) for kind in "FB" for i in range(microbatches)]

# %% right · two loops, by name
def gpipe(rank, ranks, microbatches):
    i = 0
    while i < microbatches:
        yield Action(kind="F", microbatch=i, chunk=0)
        i += 1
    yield from map(Action, "B" * microbatches, range(microbatches))

# %% wrong · the backwards come in the opposite order
# -         for i in range(microbatches):
# +         for i in range(microbatches) if kind == "F" else reversed(range(microbatches)):

# %% wrong · nothing goes back
# -     for kind in "FB":
# +     for kind in "F":

# %% wrong · the loop has to go over the micro-batches
# -         for i in range(microbatches):
# +         for i in range(ranks):

# %% wrong · micro-batches are counted from 0 on
# -         for i in range(microbatches):
# +         for i in range(1, microbatches + 1):

# %% wrong · does a `range` begin below 0
# -         for i in range(microbatches):
# +         for i in range(-1, microbatches):

# %% wrong · that is for the zero bubble
# -     for kind in "FB":
# +     for kind in "FIW":

# %% wrong · that is for exercise {{one_f_one_b}}
# -     for kind in "FB":
# -         for i in range(microbatches):
# -             yield Action(kind, i)
# +     yield from one_f_one_b(rank, ranks, microbatches)

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
# -             yield Action(kind, i)
# +             row = Action(kind, i)

# %% wrong · yield one action at a time
# -         for i in range(microbatches):
# -             yield Action(kind, i)
# +         yield [Action(kind, i) for i in range(microbatches)]

# %% wrong · the kind comes first
# -             yield Action(kind, i)
# +             yield Action(i, kind)

# %% wrong · so divide with //, not with /
# -             yield Action(kind, i)
# +             yield Action(kind, 2 * i / 2)

# %% wrong · there is a loop that never ends
# -     for kind in "FB":
# +     while kind := "F":

# %% wrong · Action("F", 0)
# -             yield Action(kind, i)
# +             yield Action(kind)

# %% wrong · what the call for the rank before has left
def gpipe(rank, ranks, microbatches, row=[]):  # noqa: B006
    row += [Action(kind, i) for kind in "FB" for i in range(microbatches)]
    return row

# %% wrong · a call gives the actions of one rank
# -     for kind in "FB":
# +     for kind in "FB" * ranks:

# %% wrong · range(n) ends with n - 1
# -         for i in range(microbatches):
# +         for i in range(microbatches - 1):

# %% wrong · it waits by itself
# -     for kind in "FB":
# +     for _ in range(rank):
# +         yield None
# +     for kind in "FB":

# %% wrong · on some ranks the backwards come in the opposite order
# -         for i in range(microbatches):
# +         row = range(microbatches)
# +         for i in row[::-1] if kind == "B" and rank % 2 else row:

# %% right · the solution
def one_f_one_b(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(warm_up, microbatches):
        yield Action("F", i)
        yield Action("B", i - warm_up)
    for i in range(microbatches - warm_up, microbatches):
        yield Action("B", i)

# %% right · as a queue
def one_f_one_b(rank, ranks, microbatches):
    waiting, kept = list(range(microbatches)), []
    row = []
    while waiting or kept:
        if waiting and len(kept) < ranks - rank:
            kept.append(waiting.pop(0))
            row.append(Action("F", kept[-1]))
        else:
            row.append(Action(kind="B", microbatch=kept.pop(0)))
    return row

# %% right · the backward first
def one_f_one_b(rank, ranks, microbatches):
    begin = min(ranks - rank, microbatches)
    yield from (Action("F", i) for i in range(begin))
    for i in range(microbatches):
        yield Action("B", i)
        if begin + i < microbatches:
            yield Action("F", begin + i)

# %% wrong · `ranks - rank` counts this rank, too
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(ranks - rank, microbatches)

# %% wrong · the wrong way round: the last rank
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(rank, microbatches)

# %% wrong · the wrong way round: the last
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(rank + 1, microbatches)

# %% wrong · it takes at most all of them
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = ranks - 1 - rank

# %% wrong · all ranks warm up alike
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(ranks - 1, microbatches)

# %% wrong · a warm-up twice as long as it has to be: it
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(2 * (ranks - 1 - rank), microbatches)

# %% wrong · and this rank is counted, too: as
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(2 * (ranks - rank), microbatches)

# %% wrong · Only the last one can: the others wait
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = 0

# %% wrong · this is GPipe, and every rank keeps
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = microbatches

# %% wrong · the warm-up is below 0 on the last rank
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(ranks - rank - 2, microbatches)

# %% wrong · one forward too few
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = max(0, min(ranks - rank - 2, microbatches))

# %% wrong · their backwards are the cool-down
# -     for i in range(microbatches - warm_up, microbatches):
# -         yield Action("B", i)

# %% wrong · microbatches - warm_up backwards are done
# -     for i in range(microbatches - warm_up, microbatches):
# +     for i in range(warm_up):

# %% wrong · the newest micro-batch comes first
# -         yield Action("B", i - warm_up)
# +         yield Action("B", i)

# %% wrong · after the warm-up the forward comes first
def one_f_one_b(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    for i in range(warm_up):
        yield Action("F", i)
    for i in range(warm_up, microbatches):
        yield Action("B", i - warm_up)
        yield Action("F", i)
    for i in range(microbatches - warm_up, microbatches):
        yield Action("B", i)

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

# %% wrong · the wrong way round: the last rank
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(rank, microbatches)

# %% wrong · it takes at most all of them
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = ranks - 1 - rank

# %% wrong · all ranks warm up alike
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(ranks - 1, microbatches)

# %% wrong · this is GPipe, and every rank keeps
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = microbatches

# %% wrong · rank 3 does F-1: micro-batches begin at 0 the warm-up is below 0
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(ranks - rank - 2, microbatches)

# %% wrong · the forward comes first, then the backward: one F, one B
def one_f_one_b(rank, ranks, microbatches):
    waiting, kept, row = list(range(microbatches)), [], []
    while waiting or kept:
        if waiting and (len(row) < ranks - 1 - rank or not kept):
            kept.append(waiting.pop(0))
            row.append(Action("F", kept[-1]))
        else:
            row.append(Action("B", kept.pop(0)))
    return row

# %% wrong · their backwards are the cool-down
# -     for i in range(microbatches - warm_up, microbatches):
# -         yield Action("B", i)

# %% wrong · B0 to B4 are done by then, and the next one is B5
# -     for i in range(microbatches - warm_up, microbatches):
# +     for i in range(warm_up):

# %% wrong · the last backwards come in the opposite order
# -     for i in range(microbatches - warm_up, microbatches):
# +     for i in reversed(range(microbatches - warm_up, microbatches)):

# %% wrong · the newest micro-batch comes first
# -         yield Action("B", i - warm_up)
# +         yield Action("B", i)

# %% wrong · nothing to go back with before its first forward
# -         yield Action("F", i)
# -         yield Action("B", i - warm_up)
# +         yield Action("B", i - warm_up)
# +         yield Action("F", i)

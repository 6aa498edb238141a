# %% given
Action = lab("schedules").Action

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

# %% right · one less of the old warm-up
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = max(min(ranks - rank - 1, microbatches), 0)

# %% wrong · the ranks keep up to [5, 4, 3, 2] micro-batches
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(ranks - rank, microbatches)

# %% wrong · one forward too few
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = max(0, min(ranks - rank - 2, microbatches))

# %% wrong · the wrong way round: the last rank
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(rank, microbatches)

# %% wrong · all ranks warm up alike. A
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(2, microbatches)

# %% wrong · each further rank one fewer
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min(ranks + 1 - rank, microbatches)

# %% wrong · the memory is enough, but ranks are idle
# -     warm_up = min(ranks - 1 - rank, microbatches)
# +     warm_up = min((ranks - rank) // 2, microbatches)

# %% wrong · goes forward several times in a row
def one_f_one_b(rank, ranks, microbatches):
    room = ranks - rank
    for first in range(0, microbatches, room):
        group = range(first, min(first + room, microbatches))
        yield from (Action("F", i) for i in group)
        yield from (Action("B", i) for i in group)

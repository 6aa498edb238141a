# %% given
Action = lab("schedules").Action
schedules = lab("schedules")

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

# %% right · less room
# -     room = min(microbatches, ranks - rank)
# +     room = min(microbatches - 1, ranks - rank - 1)
# -         has_room = forwards - backwards < room
# +         has_room = forwards - backwards <= room

# %% right · three loops
def one_f_one_b(rank, ranks, microbatches):
    warm_up = min(ranks - 1 - rank, microbatches)
    yield from (Action("F", i) for i in range(warm_up))
    for i in range(warm_up, microbatches):
        yield Action("F", i)
        yield Action("B", i - warm_up)
    yield from (Action("B", i) for i in range(microbatches - warm_up, microbatches))

# %% wrong · the ranks keep up to [5, 4, 3, 2] micro-batches
# -         has_room = forwards - backwards < room
# +         has_room = forwards - backwards <= room

# %% wrong · one forward too few
# -         has_room = forwards - backwards < room
# +         has_room = forwards - backwards < max(1, room - 1)

# %% wrong · one forward too few
# -     room = min(microbatches, ranks - rank)
# +     room = max(1, min(microbatches, ranks - rank - 1))

# %% wrong · each rank goes back right after its first forward
# -         has_room = forwards - backwards < room
# +         has_room = forwards - backwards < 1

# %% wrong · makes room again
# -         has_room = forwards - backwards < room
# +         has_room = forwards < room

# %% wrong · this is GPipe
# -         has_room = forwards - backwards < room
# +         has_room = True

# %% wrong · the wrong way round: the last rank
# -     room = min(microbatches, ranks - rank)
# +     room = min(microbatches, rank + 1)

# %% wrong · all ranks warm up alike. A
# -     room = min(microbatches, ranks - rank)
# +     room = min(microbatches, ranks)

# %% wrong · goes forward several times in a row
def one_f_one_b(rank, ranks, microbatches):
    room = ranks - rank
    for first in range(0, microbatches, room):
        group = range(first, min(first + room, microbatches))
        yield from (Action("F", i) for i in group)
        yield from (Action("B", i) for i in group)

# %% right · a loop over places
def samples_from(position, length, batch, rank, n, seed=0):
    while True:
        mine = []
        for place in range(position, position + batch):
            if (place - position) % n == rank:
                mine.append((place // length, order_of(place // length, length, seed)[place % length]))
        yield mine
        position = position + batch

# %% right · count, and slices
import itertools

def samples_from(position, length, batch, rank, n, seed=0):
    def sample_at(place):
        epoch, k = divmod(place, length)
        return epoch, order_of(epoch, length, seed)[k]

    for start in itertools.count(position, batch):
        yield [sample_at(start + k) for k in range(batch)][rank::n]

# %% right · an endless stream, and a generator expression
import itertools

def samples_from(position, length, batch, rank, n, seed=0):
    epoch, skipped = divmod(position, length)
    stream = ((e, sample) for e in itertools.count(epoch) for sample in order_of(e, length, seed))
    stream = itertools.islice(stream, skipped, None)
    return (list(itertools.islice(stream, batch))[rank::n] for _ in itertools.count())

# %% wrong · the position is ignored
def samples_from(position, length, batch, rank, n, seed=0):
    position = 0
    while True:
        places = range(position + rank, position + batch, n)
        yield [(p // length, order_of(p // length, length, seed)[p % length]) for p in places]
        position += batch

# %% wrong · with the epoch of the position, and not with the position
def samples_from(position, length, batch, rank, n, seed=0):
    position -= position % length
    while True:
        places = range(position + rank, position + batch, n)
        yield [(p // length, order_of(p // length, length, seed)[p % length]) for p in places]
        position += batch

# %% wrong · every epoch has the order of epoch 0
# -         yield [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs]
# +         yield [(epoch, order_of(0, length, seed)[k]) for epoch, k in in_epochs]

# %% wrong · its own beginning is read again
def samples_from(position, length, batch, rank, n, seed=0):
    epoch = position // length
    order = order_of(epoch, length, seed)
    while True:
        places = range(position + rank, position + batch, n)
        yield [(epoch, order[place % length]) for place in places]
        position += batch

# %% wrong · goes on with the next epoch
def samples_from(position, length, batch, rank, n, seed=0):
    each = length // batch
    step = position // batch
    while True:
        epoch, k = divmod(step, each)
        yield [(epoch, s) for s in order_of(epoch, length, seed)[k * batch : (k + 1) * batch]][rank::n]
        step += 1

# %% wrong · a rank has a block
# -         places = range(position + rank, position + batch, n)
# +         each = -(-batch // n)
# +         places = range(position + rank * each, position + min(batch, (rank + 1) * each))

# %% wrong · each rank has all samples
# -         places = range(position + rank, position + batch, n)
# +         places = range(position, position + batch)

# %% wrong · counts those of all ranks together
# -         places = range(position + rank, position + batch, n)
# +         places = range(position + rank, position + batch * n, n)
# -         position += batch
# +         position += batch * n

# %% wrong · each step is the same
# -         position += batch

# %% wrong · grows by `batch`
# -         position += batch
# +         position += 1

# %% wrong · the seed is not used
# -         yield [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs]
# +         yield [(epoch, order_of(epoch, length)[k]) for epoch, k in in_epochs]

# %% wrong · the samples are their places
# -         yield [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs]
# +         yield [(epoch, k) for epoch, k in in_epochs]

# %% wrong · the other way round
# -         yield [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs]
# +         yield [(order_of(epoch, length, seed)[k], epoch) for epoch, k in in_epochs]

# %% wrong · may lie behind the first epoch
# -         yield [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs]
# +         yield [(0, order_of(0, length, seed)[place]) for place in places]

# %% wrong · a function with `yield`
# -         yield [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs]
# +         return [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs]

# %% wrong · each list holds pairs
# -         yield [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs]
# +         yield [order_of(epoch, length, seed)[k] for epoch, k in in_epochs]

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

# %% wrong · pairs come one by one here
# -         yield [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs]
# +         yield from ((epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs)

# %% wrong · a step is a list
# -         yield [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs]
# +         yield ((epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs)

# %% wrong · an epoch and a sample are ints
# -         yield [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in in_epochs]
# +         yield [(epoch, torch.tensor(order_of(epoch, length, seed))[k]) for epoch, k in in_epochs]

# %% wrong · one list is emptied and filled again
def samples_from(position, length, batch, rank, n, seed=0):
    mine = []
    while True:
        mine.clear()
        for place in range(position + rank, position + batch, n):
            epoch, k = divmod(place, length)
            mine.append((epoch, order_of(epoch, length, seed)[k]))
        yield mine
        position += batch

# %% wrong · a stream that never ends needs a loop
def samples_from(position, length, batch, rank, n, seed=0):
    places = [divmod(place, length) for place in range(position + rank, position + batch, n)]
    yield [(epoch, order_of(epoch, length, seed)[k]) for epoch, k in places]
    yield from samples_from(position + batch, length, batch, rank, n, seed)

# %% wrong · the next epoch follows in the same step
def samples_from(position, length, batch, rank, n, seed=0):
    while True:
        epoch, k = divmod(position, length)
        step = order_of(epoch, length, seed)[k : k + batch]
        yield [(epoch, sample) for sample in step][rank::n]
        position += len(step)

# %% wrong · a step that begins there goes on with the next epoch
def samples_from(position, length, batch, rank, n, seed=0):
    while True:
        epoch, k = divmod(position, length)
        if k + batch > length:
            position = (epoch + 1) * length
            continue
        yield [(epoch, s) for s in order_of(epoch, length, seed)[k : k + batch]][rank::n]
        position += batch

# %% wrong · even if `batch` is no multiple of n
# -         places = range(position + rank, position + batch, n)
# +         places = [p for p in range(position, position + batch) if p % n == rank]

# %% wrong · what is left over of a step belongs to the first ranks
# -         places = range(position + rank, position + batch, n)
# +         places = range(position + rank, position + batch // n * n, n)

# %% wrong · all `batch` samples have been used
# -         position += batch
# +         position += batch // n * n

# %% right · by sorting
def order_forwards(microbatches, chunks, size):
    pairs = [(i, chunk) for chunk in range(chunks) for i in range(microbatches)]
    return sorted(pairs, key=lambda pair: pair[0] // size)

# %% right · a loop that cuts off groups
def order_forwards(microbatches, chunks, size):
    waiting, found = list(range(microbatches)), []
    while waiting:
        group, waiting = waiting[:size], waiting[size:]
        for chunk in range(chunks):
            found += [[i, chunk] for i in group]
    return found

# %% wrong · some that do not exist go forward
# -         for i in range(first, min(first + size, microbatches))
# +         for i in range(first, first + size)

# %% wrong · the micro-batches of the last group are left out
# -         for first in range(0, microbatches, size)
# +         for first in range(0, microbatches // size * size, size)

# %% wrong · go through all chunks one by one
def order_forwards(microbatches, chunks, size):
    whole = microbatches // size * size
    found = [(i, chunk) for first in range(0, whole, size) for chunk in range(chunks)
             for i in range(first, first + size)]
    for i in range(whole, microbatches):
        found += [(i, chunk) for chunk in range(chunks)]
    return found

# %% wrong · this is `size` = 1
def order_forwards(microbatches, chunks, size):
    return [(i, chunk) for i in range(microbatches) for chunk in range(chunks)]

# %% wrong · this is a single group
def order_forwards(microbatches, chunks, size):
    return [(i, chunk) for chunk in range(chunks) for i in range(microbatches)]

# %% wrong · the groups are balanced
def order_forwards(microbatches, chunks, size):
    count = -(-microbatches // size)
    ends = [(k * microbatches + count - 1) // count for k in range(count + 1)]
    return [(i, chunk) for first, end in zip(ends, ends[1:]) for chunk in range(chunks)
            for i in range(first, end)]

# %% wrong · chunk and micro-batch are in each other's place
# -         (i, chunk)
# +         (chunk, i)

# %% wrong · begins with micro-batch 0 again
# -         for i in range(first, min(first + size, microbatches))
# +         for i in range(min(size, microbatches - first))

# %% wrong · the order of the backwards
# -         for chunk in range(chunks)
# +         for chunk in reversed(range(chunks))

# %% wrong · a list of pairs: (micro-batch, chunk)
# -         (i, chunk)
# +         ("F", i, chunk)

# %% wrong · one list of pairs
def order_forwards(microbatches, chunks, size):
    return [[(i, chunk) for chunk in range(chunks)
             for i in range(first, min(first + size, microbatches))]
            for first in range(0, microbatches, size)]

# %% wrong · got a generator
def order_forwards(microbatches, chunks, size):
    for first in range(0, microbatches, size):
        for chunk in range(chunks):
            for i in range(first, min(first + size, microbatches)):
                yield i, chunk

# %% wrong · a pair with a Tensor
def order_forwards(microbatches, chunks, size):
    import torch
    groups = torch.arange(microbatches).split(size)
    return [(i, chunk) for group in groups for chunk in range(chunks) for i in group]

# %% wrong · a pair with a float
# -         (i, chunk)
# +         (float(i), chunk)

# %% wrong · `size` is how many micro-batches a group has
def order_forwards(microbatches, chunks, size):
    each = -(-microbatches // size)
    return [(i, chunk) for first in range(0, microbatches, each) for chunk in range(chunks)
            for i in range(first, min(first + each, microbatches))]

# %% wrong · what is left is a group of its own
def order_forwards(microbatches, chunks, size):
    ends = [size * k for k in range(max(1, microbatches // size))] + [microbatches]
    return [(i, chunk) for first, end in zip(ends, ends[1:]) for chunk in range(chunks)
            for i in range(first, end)]

# %% wrong · a last group of a single micro-batch is left out
# -         for first in range(0, microbatches, size)
# +         for first in range(0, microbatches - 1, size)

# %% wrong · every group goes through chunk 0 first
# -         for chunk in range(chunks)
# +         for chunk in sorted(range(chunks), reverse=first // size % 2 == 1)

# %% wrong · there are always two chunks here
# -         for chunk in range(chunks)
# +         for chunk in (0, 1)

# %% right · from the samples that fit
def micro_batches_for(batch, limit, fixed, each):
    samples = min(batch, (limit - fixed) // each)
    if samples < 1:
        raise ValueError("too little")
    while batch % samples:
        samples -= 1
    return batch / samples

# %% right · the smallest of all
def micro_batches_for(batch, limit, fixed, each):
    return min(n for n in range(1, batch + 1)
               if batch % n == 0 and fixed + each * batch / n <= limit)

# %% wrong · what takes exactly `limit` bytes fits: <=
# -         if batch % count == 0 and fixed + each * (batch // count) <= limit:
# +         if batch % count == 0 and fixed + each * (batch // count) < limit:

# %% wrong · is 7, expected 10 7 micro-batches of a batch of 60 cannot be equally large: 7 does not divide it
# -         if batch % count == 0 and fixed + each * (batch // count) <= limit:
# +         if fixed + each * (batch // count) <= limit:

# %% wrong · a number of micro-batches is whole
# -             return count
# +             return batch * each / (limit - fixed)

# %% wrong · which are fewer
def micro_batches_for(batch, limit, fixed, each):
    if fixed + each > limit:
        raise ValueError
    return batch

# %% wrong · bytes: too many
def micro_batches_for(batch, limit, fixed, each):
    return 2

# %% wrong · ends before batch itself
# -     for count in range(1, batch + 1):
# +     for count in range(1, batch):

# %% wrong · Say so: raise ValueError
# -     raise ValueError(f"one sample needs {fixed + each} bytes: more than {limit}")
# +     return None

# %% wrong · message that tells what a sample needs
# -     raise ValueError(f"one sample needs {fixed + each} bytes: more than {limit}")
# +     return batch

# %% wrong · `fixed` leaves nothing
def micro_batches_for(batch, limit, fixed, each):
    if limit < fixed or 0 < limit - fixed < each:
        raise ValueError
    count = -(-each * batch // (limit - fixed))
    while batch % count:
        count += 1
    return count

# %% wrong · not even one sample fits, and the loop looks for more
def micro_batches_for(batch, limit, fixed, each):
    count = 1
    while batch % count or fixed + each * (batch // count) > limit:
        count += 1
    return count

# %% wrong · a number of micro-batches is whole, and
def micro_batches_for(batch, limit, fixed, each):
    return float('inf')

# %% wrong · without `return`
def micro_batches_for(batch, limit, fixed, each):
    count = 1

# %% wrong · it gave '<generator object
# -             return count
# +             yield count

# %% wrong · has 5 been tried? Every divisor
def micro_batches_for(batch, limit, fixed, each):
    count = 1
    while batch % count == 0:
        if fixed + each * (batch // count) <= limit:
            return count
        count *= 2
    raise ValueError("not even one sample fits")

# %% right · numpy
def micro_batches_for(batch, limit, fixed, each):
    import numpy as np
    n = np.arange(1, batch + 1); n = n[batch % n == 0]
    ok = n[fixed + each * (batch // n) <= limit]
    if not len(ok): raise ValueError("no")
    return ok[0]

# %% right · a kind of ValueError of its own
def micro_batches_for(batch, limit, fixed, each):
    class TooSmall(ValueError): pass
    k = next((k for k in range(1, batch + 1) if not batch % k and fixed + each * batch // k <= limit), None)
    if k is None: raise TooSmall(f"one sample needs {fixed + each} bytes")
    return k

# %% wrong · so does the whole batch at once
# -     for count in range(1, batch + 1):
# +     for count in range(2, batch + 1):

# %% wrong · it fits, and so does the whole batch at once
def micro_batches_for(batch, limit, fixed, each):
    return 5

# %% wrong · each call begins anew
T = [0]
def micro_batches_for(batch, limit, fixed, each):
    for count in range(1, batch + 1):
        if batch % count == 0 and fixed + each * (batch // count) <= limit:
            T[0] += count; return T[0]
    raise ValueError("none")

# %% wrong · asked is one number
# -             return count
# +             return count, batch // count

# %% right · flush
def make_buckets(parameters, bucket_bytes):
    buckets, bucket, size = [], [], 0
    for p in list(parameters)[::-1]:
        if not p.requires_grad:
            continue
        bucket.append(p)
        size += p.numel() * p.element_size()
        if size >= bucket_bytes:
            buckets.append(bucket)
            bucket, size = [], 0
    return buckets + [bucket] if bucket else buckets

# %% right · recursive, with tuples
def make_buckets(parameters, bucket_bytes):
    def cut(ps):
        for stop in range(1, len(ps) + 1):
            if sum(p.nbytes for p in ps[:stop]) >= bucket_bytes or stop == len(ps):
                return (ps[:stop], *cut(ps[stop:]))
        return ()

    return cut(tuple(p for p in parameters if p.requires_grad)[::-1])

# %% wrong · as in exercise 2.12
# -     buckets, full = [], True
# +     buckets = []
# -         if full:
# +         if not buckets or sum(p.nbytes for p in buckets[-1]) + parameter.nbytes > bucket_bytes:
# -         full = sum(p.nbytes for p in buckets[-1]) >= bucket_bytes

# %% wrong · the last bucket is missing
# -     return buckets
# +     return buckets[:-1]

# %% wrong · a bucket without parameters
# - [], True
# + [[]], True

# %% wrong · it has been gone through already
# -     buckets, full = [], True
# +     print(sum(p.nbytes for p in parameters), "bytes")
# +     buckets, full = [], True

# %% wrong · no order to turn round
# - reversed([p for p in parameters if p.requires_grad]):
# + reversed(parameters):

# %% wrong · parameters themselves
# - append(parameter)
# + append(parameter.detach())

# %% wrong · a list of lists
# -     return buckets
# +     yield from buckets

# %% wrong · as large as its parameter
# - sum(p.nbytes for p in buckets[-1]) >= bucket_bytes
# + sum(p.grad.nbytes for p in buckets[-1]) >= bucket_bytes

# %% wrong · without `return`
# -     return buckets

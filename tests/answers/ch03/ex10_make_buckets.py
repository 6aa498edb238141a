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

# %% right · with PyTorch's own
def make_buckets(parameters, bucket_bytes):
    ps = [p for p in parameters if p.requires_grad][::-1]
    if not ps:
        return []
    found, _ = dist._compute_bucket_assignment_by_size(ps, [bucket_bytes])
    return [[ps[i] for i in bucket] for bucket in found]

# %% wrong · as in exercise 2.12
# -     buckets, full = [], True
# +     buckets = []
# -         if full:
# +         if not buckets or sum(p.nbytes for p in buckets[-1]) + parameter.nbytes > bucket_bytes:
# -         full = sum(p.nbytes for p in buckets[-1]) >= bucket_bytes

# %% wrong · the last bucket is missing
def make_buckets(parameters, bucket_bytes):
    buckets, bucket = [], []
    for p in reversed([p for p in parameters if p.requires_grad]):
        bucket.append(p)
        if sum(q.nbytes for q in bucket) >= bucket_bytes:
            buckets.append(bucket)
            bucket = []
    return buckets

# %% wrong · a bucket without parameters
def make_buckets(parameters, bucket_bytes):
    buckets = [[]]
    for p in reversed([p for p in parameters if p.requires_grad]):
        buckets[-1].append(p)
        if sum(q.nbytes for q in buckets[-1]) >= bucket_bytes:
            buckets.append([])
    return buckets

# %% wrong · it has been gone through already
# -     buckets, full = [], True
# +     print(sum(p.nbytes for p in parameters), "bytes")
# +     buckets, full = [], True

# %% wrong · no order to turn round
def make_buckets(parameters, bucket_bytes):
    return [[p] for p in reversed(parameters) if p.requires_grad]

# %% wrong · parameters themselves
def make_buckets(parameters, bucket_bytes):
    return [[p.detach() for p in reversed(list(parameters)) if p.requires_grad]]

# %% wrong · a list of lists
def make_buckets(parameters, bucket_bytes):
    for p in reversed(list(parameters)):
        yield [p]

# %% wrong · as large as its parameter
def make_buckets(parameters, bucket_bytes):
    return [[p for p in reversed(list(parameters)) if p.grad.nbytes < bucket_bytes]]

# %% wrong · without `return`
def make_buckets(parameters, bucket_bytes):
    buckets = [list(parameters)]

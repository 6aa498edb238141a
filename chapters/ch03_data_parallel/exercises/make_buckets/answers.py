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

# %% right · with tuples
# -     return buckets
# +     return tuple(map(tuple, buckets))

# %% wrong · as in exercise {{all_reduce_buckets}}
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

# %% wrong · only the first axis of a parameter is counted, as len() does
# -         full = sum(p.nbytes for p in buckets[-1]) >= bucket_bytes
# +         sizes = (len(p) if p.ndim else 1 for p in buckets[-1])
# +         full = sum(sizes) * parameter.element_size() >= bucket_bytes

# %% wrong · 8 bytes are taken for each element
# - sum(p.nbytes for p in buckets[-1]) >= bucket_bytes
# + sum(8 * p.numel() for p in buckets[-1]) >= bucket_bytes

# %% wrong · requires_grad of a parameter has changed
# -         buckets[-1].append(parameter)
# +         buckets[-1].append(parameter.requires_grad_(False))

# %% wrong · a parameter has a `.grad` now
# -         buckets[-1].append(parameter)
# +         buckets[-1].append(parameter)
# +         parameter.grad = torch.zeros_like(parameter)

# %% wrong · these are parameters of another model
# - def make_buckets(parameters, bucket_bytes) -> list[list[nn.Parameter]]:
# + def make_buckets(parameters, bucket_bytes, kept=[]):
# -     buckets, full = [], True
# +     if kept:
# +         return kept
# +     buckets, full = kept, True

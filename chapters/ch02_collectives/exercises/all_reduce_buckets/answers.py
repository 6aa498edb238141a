# %% right · over a ring that pads its chunks
def all_reduce_ring(x, group=None):
    n, flat = dist.get_world_size(group), x.view(-1)
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % n)])
    chunks = list(padded.chunk(n))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
    flat.copy_(padded[: len(flat)])


def all_reduce_buckets(tensors, bucket_bytes, group=None):
    buckets = []
    for x in tensors:
        if not buckets or sum(y.nbytes for y in buckets[-1]) + x.nbytes > bucket_bytes:
            buckets.append([])
        buckets[-1].append(x)
    for bucket in buckets:
        long = torch.cat([x.flatten() for x in bucket])
        all_reduce_ring(long, group)
        for x, sums in zip(bucket, long.split([x.numel() for x in bucket])):
            x.copy_(sums.view_as(x))

# %% wrong · every tensor still has an all-reduce of its own
def all_reduce_ring(x, group=None):
    n, flat = dist.get_world_size(group), x.view(-1)
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % n)])
    chunks = list(padded.chunk(n))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
    flat.copy_(padded[: len(flat)])


def all_reduce_buckets(tensors, bucket_bytes, group=None):
    for x in tensors:
        flat = x.flatten()
        all_reduce_ring(flat, group)
        x.copy_(flat.view_as(x))

# %% wrong · everything is in one bucket; after
def all_reduce_ring(x, group=None):
    n, flat = dist.get_world_size(group), x.view(-1)
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % n)])
    chunks = list(padded.chunk(n))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
    flat.copy_(padded[: len(flat)])


def all_reduce_buckets(tensors, bucket_bytes, group=None):
    if tensors:
        long = torch.cat([x.flatten() for x in tensors])
        all_reduce_ring(long, group)
        for x, sums in zip(tensors, long.split([x.numel() for x in tensors])):
            x.copy_(sums.view_as(x))

# %% right · a generator of slices
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    start = 0
    while start < len(tensors):
        stop, size = start + 1, tensors[start].nbytes
        while stop < len(tensors) and size + tensors[stop].nbytes <= bucket_bytes:
            size += tensors[stop].nbytes
            stop += 1
        long = torch.cat([t.flatten() for t in tensors[start:stop]])
        all_reduce_ring(long, group)
        at = 0
        for t in tensors[start:stop]:
            t.view(-1)[:] = long[at : at + t.numel()]
            at += t.numel()
        start = stop

# %% right · flush
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    def flush(bucket):
        if bucket:
            long = torch.cat([t.view(-1) for t in bucket])
            all_reduce_ring(long, group)
            for t in bucket:
                t.copy_(long[: t.numel()].view(t.shape))
                long = long[t.numel() :]
        bucket.clear()

    bucket = []
    for t in tensors:
        if sum(b.nbytes for b in bucket) + t.nbytes > bucket_bytes:
            flush(bucket)
        bucket.append(t)
    flush(bucket)

# %% wrong · every tensor still has an all-reduce of its own
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    for x in tensors:
        all_reduce_ring(x, group)

# %% wrong · everything is in one bucket
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    if tensors:
        flat = torch.cat([x.view(-1) for x in tensors])
        all_reduce_ring(flat, group)
        for x, part in zip(tensors, flat.split([x.numel() for x in tensors])):
            x.copy_(part.view_as(x))

# %% wrong · The last bucket is never full
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    bucket = []
    for x in tensors:
        if bucket and sum(b.nbytes for b in bucket) + x.nbytes > bucket_bytes:
            flat = torch.cat([b.view(-1) for b in bucket])
            all_reduce_ring(flat, group)
            for b, part in zip(bucket, flat.split([b.numel() for b in bucket])):
                b.copy_(part.view_as(b))
            bucket = []
        bucket.append(x)

# %% wrong · torch.cat makes a copy
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    if tensors:
        all_reduce_ring(torch.cat([x.view(-1) for x in tensors]), group)

# %% wrong · this is the mean
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    for x in tensors:
        all_reduce_ring(x, group)
        x.copy_(x / dist.get_world_size(group))

# %% wrong · some bucket holds more than 572 bytes
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    buckets, filled = [[]], 0
    for x in tensors:
        buckets[-1].append(x)
        filled += x.nbytes
        if filled > bucket_bytes:
            buckets.append([])
            filled = 0
    for bucket in filter(None, buckets):
        flat = torch.cat([x.view(-1) for x in bucket])
        all_reduce_ring(flat, group)
        for x, part in zip(bucket, flat.split([x.numel() for x in bucket])):
            x.copy_(part.view_as(x))

# %% wrong · come back into the wrong places
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    if tensors:
        flat = torch.cat([x.view(-1) for x in tensors])
        all_reduce_ring(flat, group)
        flat = flat.flip(0)
        for x, part in zip(tensors, flat.split([x.numel() for x in tensors])):
            x.copy_(part.view_as(x))

# %% wrong · although it would have fitted
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    buckets = []
    for x in tensors:
        if not buckets or sum(b.nbytes for b in buckets[-1]) + x.nbytes > bucket_bytes // 3:
            buckets.append([])
        buckets[-1].append(x)
    for bucket in buckets:
        flat = torch.cat([x.view(-1) for x in bucket])
        all_reduce_ring(flat, group)
        for x, part in zip(bucket, flat.split([x.numel() for x in bucket])):
            x.copy_(part.view_as(x))

# %% wrong · it was rounded on its way
# -         flat = torch.cat([x.view(-1) for x in bucket])
# +         flat = torch.empty(sum(x.numel() for x in bucket))
# +         torch.cat([x.view(-1).float() for x in bucket], out=flat)

# %% wrong · a bucket that is exactly full is allowed
# -         if not buckets or filled + x.nbytes > bucket_bytes:
# +         if not buckets or filled + x.nbytes >= bucket_bytes:

# %% wrong · the tensors are sorted by their size
# -     for x in tensors:
# -         if not buckets or filled + x.nbytes > bucket_bytes:
# +     for x in sorted(tensors, key=lambda x: x.nbytes):
# +         if not buckets or filled + x.nbytes > bucket_bytes:

# %% wrong · only the last one is still open
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    buckets = []
    for x in tensors:
        for b in buckets:
            if sum(t.nbytes for t in b) + x.nbytes <= bucket_bytes:
                b.append(x)
                break
        else:
            buckets.append([x])
    for bucket in buckets:
        flat = torch.cat([x.view(-1) for x in bucket])
        all_reduce_ring(flat, group)
        for x, part in zip(bucket, flat.split([x.numel() for x in bucket])):
            x.copy_(part.view_as(x))

# %% wrong · asked are bytes
# -         if not buckets or filled + x.nbytes > bucket_bytes:
# +         if not buckets or filled + x.numel() > bucket_bytes:
# -         filled += x.nbytes
# +         filled += x.numel()

# %% wrong · it is to go as a whole, in a bucket of its own
# -         all_reduce_ring(flat, group)
# +         for piece in flat.split(bucket_bytes // flat.element_size()):
# +             all_reduce_ring(piece, group)

# %% wrong · an empty bucket is reduced
# -     buckets, filled = [], 0
# +     buckets, filled = [[]], 0
# -         if not buckets or filled + x.nbytes > bucket_bytes:
# +         if filled + x.nbytes > bucket_bytes:

# %% right · recursive
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    if not tensors:
        return
    count, filled = 1, tensors[0].nbytes
    while count < len(tensors) and filled + tensors[count].nbytes <= bucket_bytes:
        filled += tensors[count].nbytes
        count += 1
    flat = torch.cat([t.reshape(-1) for t in tensors[:count]])
    all_reduce_ring(flat, group)
    at = 0
    for t in tensors[:count]:
        t.view(-1).copy_(flat[at : at + t.numel()])
        at += t.numel()
    all_reduce_buckets(tensors[count:], bucket_bytes, group)

# %% right · one buffer for all
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    if not tensors:
        return
    flat = torch.cat([t.flatten() for t in tensors])
    start = end = at = 0
    for t in tensors:
        if end > start and (end - start) * t.element_size() + t.nbytes > bucket_bytes:
            all_reduce_ring(flat[start:end], group)
            start = end
        end += t.numel()
    all_reduce_ring(flat[start:end], group)
    for t in tensors:
        t.copy_(flat[at : at + t.numel()].view(t.shape))
        at += t.numel()

# %% wrong · not always 8
# -         if not buckets or filled + x.nbytes > bucket_bytes:
# +         if not buckets or filled + x.numel() * 8 > bucket_bytes:
# -         filled += x.nbytes
# +         filled += x.numel() * 8

# %% wrong · bucket_bytes tells how many
# -         if not buckets or filled + x.nbytes > bucket_bytes:
# +         if not buckets or filled + x.nbytes > 400:

# %% wrong · the last tensors come first
# -     for x in tensors:
# -         if not buckets or filled + x.nbytes > bucket_bytes:
# +     for x in reversed(tensors):
# +         if not buckets or filled + x.nbytes > bucket_bytes:

# %% wrong · make a list of your own
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    while tensors:
        bucket = [tensors.pop(0)]
        while tensors and sum(t.nbytes for t in bucket) + tensors[0].nbytes <= bucket_bytes:
            bucket.append(tensors.pop(0))
        flat = torch.cat([t.view(-1) for t in bucket])
        all_reduce_ring(flat, group)
        for x, part in zip(bucket, flat.split([t.numel() for t in bucket])):
            x.copy_(part.view_as(x))

# %% wrong · keep the dtype of the tensors
# -         flat = torch.cat([x.view(-1) for x in bucket])
# +         flat = torch.cat([x.view(-1).double() for x in bucket])

# %% wrong · each bucket travels as a whole
# -         all_reduce_ring(flat, group)
# +         all_reduce_tree(flat, group)

# %% wrong · each bucket travels as a whole
# -         all_reduce_ring(flat, group)
# +         all_reduce_star(flat, group)

# %% wrong · begin at 0 again
# -             filled = 0

# %% wrong · with all_reduce_ring of this file
# -         all_reduce_ring(flat, group)
# +         dist.all_reduce(flat, group=group)

# %% wrong · a large tensor shares its bucket
# -         if not buckets or filled + x.nbytes > bucket_bytes:
# +         if not buckets or filled + x.nbytes > bucket_bytes or x.nbytes > bucket_bytes // 2:

# %% wrong · the shape of its tensor
# -             x.copy_(part.view_as(x))
# +             x.data = part

# %% wrong · make a list of your own
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    buckets = [[]]
    for x in tensors:
        if buckets[-1] and sum(t.nbytes for t in buckets[-1]) + x.nbytes > bucket_bytes:
            buckets.append([])
        buckets[-1].append(x)
    for bucket in filter(None, buckets):
        flat = torch.cat([x.view(-1) for x in bucket])
        all_reduce_ring(flat, group)
        for x, part in zip(bucket, flat.split([x.numel() for x in bucket])):
            x.copy_(part.view_as(x))
    tensors.reverse()

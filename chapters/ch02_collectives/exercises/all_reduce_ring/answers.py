# %% right · one loop for both halves
def all_reduce_ring(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    parts = list(torch.tensor_split(x.view(-1), n))
    for step in range(2 * (n - 1)):
        out, into = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        got = torch.empty_like(into)
        sending = send(out, (rank + 1) % n, group)
        receive(got, (rank - 1) % n, group).wait()
        into.copy_(got if step >= n - 1 else into + got)
        sending.wait()

# %% right · padded to a multiple of n would cost more; slices by hand do not
def all_reduce_ring(x, group=None):
    n = dist.get_world_size(group)
    flat = x.flatten()
    bounds = [flat.numel() * k // n for k in range(n + 1)]
    parts = [flat[a:b] for a, b in zip(bounds, bounds[1:])]
    reduce_scatter_ring(parts, group)
    all_gather_ring(parts, group)
    x.copy_(flat.view(x.shape))

# %% right · on a half that puts its sums into the list
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        into = (rank - step - 2) % n
        coming = torch.empty_like(chunks[into])
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(coming, (rank - 1) % n, group).wait()
        chunks[into] += coming
        sending.wait()
def all_reduce_ring(x, group=None):
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(group)))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)

# %% wrong · a tuple takes nothing
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        into = (rank - step - 2) % n
        coming = torch.empty_like(chunks[into])
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(coming, (rank - 1) % n, group).wait()
        chunks[into] += coming
        sending.wait()
def all_reduce_ring(x, group=None):
    chunks = x.view(-1).tensor_split(dist.get_world_size(group))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)

# %% wrong · this is the reduce-scatter
def all_reduce_ring(x, group=None):
    reduce_scatter_ring(x.view(-1).tensor_split(dist.get_world_size(group)), group)

# %% wrong · an all-gather without the sums
def all_reduce_ring(x, group=None):
    all_gather_ring(x.view(-1).tensor_split(dist.get_world_size(group)), group)

# %% wrong · elements are not summed: n chunks of length // n leave a rest
def all_reduce_ring(x, group=None):
    n = dist.get_world_size(group)
    size = x.numel() // n
    chunks = [x.view(-1)[k * size : (k + 1) * size] for k in range(n)]
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)

# %% wrong · this is the mean
def all_reduce_ring(x, group=None):
    chunks = x.view(-1).tensor_split(dist.get_world_size(group))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
    x.div_(dist.get_world_size(group), rounding_mode=None if x.is_floating_point() else "floor")

# %% wrong · is a hot spot
def all_reduce_ring(x, group=None):
    all_reduce_star(x, group)

# %% wrong · the whole tensor travels round the ring
def all_reduce_ring(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    passing = x.clone()
    for _ in range(n - 1):
        received = torch.empty_like(x)
        sending = send(passing, (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        sending.wait()
        passing = received
        x += received

# %% wrong · alone got the sum, as in a reduce
def all_reduce_ring(x, group=None):
    reduce_tree(x, 0, group)

# %% wrong · the result went into another tensor
def all_reduce_ring(x, group=None):
    chunks = x.flatten().clone().tensor_split(dist.get_world_size(group))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
    x = torch.cat(chunks).view_as(x)

# %% wrong · it calls dist.all_reduce
def all_reduce_ring(x, group=None):
    dist.all_reduce(x, group=group)

# %% wrong · tensor_split makes n
def all_reduce_ring(x, group=None):
    chunks = x.view(-1).chunk(dist.get_world_size(group))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)

# %% wrong · where n divides the length it is right
def all_reduce_ring(x, group=None):
    flat, n = x.view(-1), dist.get_world_size(group)
    if flat.numel() % n:
        flat = torch.cat([flat, flat.new_zeros(-flat.numel() % n)])
    chunks = list(flat.tensor_split(n))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)

# %% right · slices and loops of its own
def all_reduce_ring(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    flat = x.view(-1)
    cuts = [round(i * flat.numel() / n) for i in range(n + 1)]
    part = lambda k: flat[cuts[k % n]:cuts[k % n + 1]]
    for s in range(n - 1):
        got = torch.empty_like(part(rank - s - 1))
        exchange(part(rank - s), (rank + 1) % n, got, (rank - 1) % n, group)
        part(rank - s - 1).add_(got)
    for s in range(n - 1):
        exchange(part(rank + 1 - s), (rank + 1) % n, part(rank - s), (rank - 1) % n, group)

# %% right · padded by less than n elements
def all_reduce_ring(x, group=None):
    n = dist.get_world_size(group)
    flat = x.view(-1)
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % n)])
    chunks = list(padded.chunk(n))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
    x.copy_(padded[: len(flat)].view_as(x))

# %% right · the last chunk takes the rest
def all_reduce_ring(x, group=None):
    n = dist.get_world_size(group)
    flat = x.view(-1)
    size = len(flat) // n
    chunks = [flat[k * size:(k + 1) * size] for k in range(n - 1)] + [flat[(n - 1) * size:]]
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)

# %% wrong · the ranks send more than they need
def all_reduce_ring(x, group=None):
    n = dist.get_world_size(group)
    chunks = list(x.double().view(-1).tensor_split(n))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
    x.copy_(torch.cat(chunks).view_as(x))

# %% wrong · is a hot spot
def all_reduce_ring(x, group=None):
    n = dist.get_world_size(group)
    if x.numel() < 100:
        return all_reduce_star(x, group)
    chunks = list(x.view(-1).tensor_split(n))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)

# %% wrong · no message was seen
def all_reduce_ring(x, group=None):
    import threading
    t = threading.Thread(target=dist.all_reduce, args=(x,), kwargs={"group": group})
    t.start(); t.join()

# %% wrong · is a hot spot [deep]
def all_reduce_ring(x, group=None):
    for i in range(x.numel()):
        all_reduce_star(x.view(-1)[i:i+1], group)

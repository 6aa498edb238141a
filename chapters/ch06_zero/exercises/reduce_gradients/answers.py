# %% right · everybody sends each its chunk
@torch.no_grad()
def reduce_gradients(unit):
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in unit.parameters]
    outgoing = flatten_padded(grads, unit.n).view(unit.n, -1)
    incoming = torch.empty_like(outgoing)
    dist.all_to_all_single(incoming, outgoing, group=unit.group)
    if unit.shard.grad is None:
        unit.shard.grad = torch.zeros_like(unit.shard)
    unit.shard.grad += incoming.mean(0)
    for p in unit.parameters:
        p.grad = None

# %% right · divided before
@torch.no_grad()
def reduce_gradients(unit):
    chunks = list(flatten_padded(gradients_of(unit), unit.n).div_(unit.n).chunk(unit.n))
    reduce_scatter_ring(chunks, unit.group)
    mine = chunks[unit.rank].clone()
    if unit.shard.grad is not None:
        mine += unit.shard.grad
    unit.shard.grad = mine
    torch.nn.Module.zero_grad(torch.nn.ParameterList(unit.parameters))

# %% wrong · this is the sum
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    unit.shard.grad = chunks[unit.rank].clone()
    for p in unit.parameters:
        p.grad = None

# %% wrong · as long as it lives, the memory of the whole flat tensor does
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    for p in unit.parameters:
        p.grad = None
    reduce_scatter_ring(chunks, unit.group)
    mean = chunks[unit.rank].div_(unit.n)
    unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad.add_(mean)

# %% wrong · Set `.grad` of each parameter to None
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    mean = chunks[unit.rank] / unit.n
    unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad + mean

# %% wrong · zero_() does not
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    mean = chunks[unit.rank] / unit.n
    unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad + mean
    for p in unit.parameters:
        p.grad = torch.zeros_like(p)

# %% wrong · which holds the parameters
@torch.no_grad()
def reduce_gradients(unit):
    reduce_scatter_ring(unit.chunks, unit.group)
    unit.shard.grad = unit.chunks[unit.rank] / unit.n
    for p in unit.parameters:
        p.grad = None

# %% wrong · that is where its optimizer looks
@torch.no_grad()
def reduce_gradients(unit):
    flat = flatten_padded(gradients_of(unit), unit.n)
    dist.all_reduce(flat, group=unit.group)
    for p, part in zip(unit.parameters, flat.split([*unit.sizes, len(flat) - sum(unit.sizes)])):
        p.grad = part.view(p.shape) / unit.n

# %% wrong · this rank's chunk of the mean, and no more
@torch.no_grad()
def reduce_gradients(unit):
    flat = flatten_padded(gradients_of(unit), unit.n)
    dist.all_reduce(flat, group=unit.group)
    unit.shard.grad = flat / unit.n
    for p in unit.parameters:
        p.grad = None

# %% wrong · it counts as zeros
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded([p.grad for p in unit.parameters], unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    unit.shard.grad = chunks[unit.rank] / unit.n
    for p in unit.parameters:
        p.grad = None

# %% wrong · every rank has to make the same calls
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    for owner, chunk in enumerate(chunks):
        if owner != unit.rank:
            dist.reduce(chunk, group_dst=owner, group=unit.group)
    unit.shard.grad = chunks[unit.rank] / unit.n
    for p in unit.parameters:
        p.grad = None

# %% wrong · It takes part whatever gradients it has
@torch.no_grad()
def reduce_gradients(unit):
    if any(p.grad is None for p in unit.parameters[:-1]):
        return
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    unit.shard.grad = chunks[unit.rank] / unit.n
    for p in unit.parameters:
        p.grad = None

# %% wrong · hand `group` to every call
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    for p in unit.parameters:
        p.grad = None
    reduce_scatter_ring(chunks, unit.group)
    mean = chunks[dist.get_rank()] / unit.n
    unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad + mean

# %% wrong · an all-reduce and a slice
@torch.no_grad()
def reduce_gradients(unit):
    chunks = list(flatten_padded(gradients_of(unit), unit.n).chunk(unit.n))
    for p in unit.parameters:
        p.grad = None
    mine = torch.empty_like(chunks[0])
    dist.reduce_scatter(mine, chunks, group=unit.group)
    unit.shard.grad = mine / unit.n + (0 if unit.shard.grad is None else unit.shard.grad)

# %% wrong · an all-reduce sends twice as much
@torch.no_grad()
def reduce_gradients(unit):
    flat = flatten_padded(gradients_of(unit), unit.n) / unit.n
    for p in unit.parameters:
        p.grad = None
    dist.all_reduce(flat, group=unit.group)
    mine = flat.chunk(unit.n)[unit.rank]
    unit.shard.grad = mine + (0 if unit.shard.grad is None else unit.shard.grad)

# %% wrong · this one has taken none
def reduce_gradients(unit):
    if all(p.grad is None for p in unit.parameters):
        return
    chunks = list(flatten_padded(gradients_of(unit), unit.n).chunk(unit.n))
    for p in unit.parameters:
        p.grad = None
    reduce_scatter_ring(chunks, unit.group)
    mean = chunks[unit.rank] / unit.n
    unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad + mean

# %% wrong · stays in memory until the next call
# -     chunks = list(flat.chunk(unit.n))
# +     unit.last = flat
# +     chunks = list(flat.chunk(unit.n))

# %% wrong · exit() and the like end the whole process
# -     chunks = list(flat.chunk(unit.n))
# +     exit()

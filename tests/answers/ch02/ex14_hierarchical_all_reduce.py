# %% right · chunks that share a flat view
def hierarchical_all_reduce(x, inside, across):
    flat = x.view(-1)
    parts = list(torch.tensor_split(flat, dist.get_world_size(inside)))
    reduce_scatter_ring(parts, inside)
    mine = parts[dist.get_rank(inside)]
    all_reduce_ring(mine, across)
    all_gather_ring(parts, inside)

# %% right · in a copy, written back
def hierarchical_all_reduce(x, inside, across):
    n, place = dist.get_world_size(inside), dist.get_rank(inside)
    chunks = [chunk.clone() for chunk in x.flatten().tensor_split(n)]
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[place], across)
    all_gather_ring(chunks, inside)
    x.copy_(torch.cat(chunks).view(x.shape))

# %% wrong · the step across machines is missing
def hierarchical_all_reduce(x, inside, across):
    all_reduce_ring(x, inside)

# %% wrong · what its machine has is missing
def hierarchical_all_reduce(x, inside, across):
    all_reduce_ring(x, across)

# %% wrong · the all-gather inside the machine is missing
def hierarchical_all_reduce(x, inside, across):
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank(inside)], across)

# %% wrong · every rank sends its whole x across
def hierarchical_all_reduce(x, inside, across):
    all_reduce_ring(x, inside)
    all_reduce_ring(x, across)
# (this sums right, and costs more)

# %% wrong · too much goes from machine to machine
def hierarchical_all_reduce(x, inside, across):
    all_reduce_ring(x)

# %% wrong · use the rings of collectives.py
def hierarchical_all_reduce(x, inside, across):
    dist.all_reduce(x, group=inside)
    dist.all_reduce(x, group=across)

# %% wrong · this is the mean
def hierarchical_all_reduce(x, inside, across):
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank(inside)], across)
    all_gather_ring(chunks, inside)
    x /= dist.get_world_size()

# %% wrong · That chunk, and nothing else
def hierarchical_all_reduce(x, inside, across):
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[0], across)
    all_gather_ring(chunks, inside)

# %% wrong · x is as it was
def hierarchical_all_reduce(x, inside, across):
    y = x.clone()
    chunks = list(y.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank(inside)], across)
    all_gather_ring(chunks, inside)

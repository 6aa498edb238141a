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

# %% wrong · rank 2 is missing, rank 3 is missing
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

# %% right · by the place that torchrun tells
def hierarchical_all_reduce(x, inside, across):
    import os
    chunks = list(x.view(-1).tensor_split(int(os.environ["LOCAL_WORLD_SIZE"])))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[int(os.environ["LOCAL_RANK"])], across)
    dist.barrier()
    all_gather_ring(chunks, inside)

# %% wrong · more is sent than need be
def hierarchical_all_reduce(x, inside, across):
    all_reduce_ring(x, inside)
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    all_reduce_ring(chunks[dist.get_rank(inside)], across)
    all_gather_ring(chunks, inside)

# %% wrong · a rank sends across for all of its machine
def hierarchical_all_reduce(x, inside, across):
    from collectives import broadcast_tree, reduce_tree
    reduce_tree(x, 0, inside)
    if dist.get_rank(inside) == 0:
        all_reduce_ring(x, across)
    broadcast_tree(x, 0, inside)

# %% wrong · too much goes across
def hierarchical_all_reduce(x, inside, across):
    machines, here = dist.get_world_size(across), dist.get_rank(across)
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    mine = chunks[dist.get_rank(inside)]
    own, got = mine.clone(), torch.empty_like(mine)
    for d in range(1, machines):
        exchange(own, (here + d) % machines, got, (here - d) % machines, across)
        mine += got
    all_gather_ring(chunks, inside)

# %% wrong · the last elements are not summed
def hierarchical_all_reduce(x, inside, across):
    n = dist.get_world_size(inside)
    size, flat = x.numel() // n, x.view(-1)
    chunks = [flat[k * size : (k + 1) * size] for k in range(n)]
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank(inside)], across)
    all_gather_ring(chunks, inside)

# %% wrong · ranks 0, 1 have the sum, and ranks 2, 3 have not
def hierarchical_all_reduce(x, inside, across):
    from collectives import reduce_tree
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    reduce_tree(chunks[dist.get_rank(inside)], 0, across)
    all_gather_ring(chunks, inside)

# %% wrong · though something has gone across
def hierarchical_all_reduce(x, inside, across):
    n = dist.get_world_size(inside)
    chunks = list(x.view(-1).tensor_split(n))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[(dist.get_rank(inside) + 1) % n], across)
    all_gather_ring(chunks, inside)

# %% wrong · hand `inside` to both rings
def hierarchical_all_reduce(x, inside, across):
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks)
    all_reduce_ring(chunks[dist.get_rank(inside)], across)
    all_gather_ring(chunks)

# %% wrong · in each step all ranks of a group have to take part
def hierarchical_all_reduce(x, inside, across):
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    if dist.get_rank() == 0:
        all_reduce_ring(chunks[0], across)
    all_gather_ring(chunks, inside)

# %% wrong · behind the one across
def hierarchical_all_reduce(x, inside, across):
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    all_gather_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank(inside)], across)

# %% wrong · rounded to float32
def hierarchical_all_reduce(x, inside, across):
    y = x.float()
    chunks = list(y.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank(inside)], across)
    all_gather_ring(chunks, inside)
    x.copy_(y)

# %% wrong · dist.get_rank(inside) its place
def hierarchical_all_reduce(x, inside, across):
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank()], across)
    all_gather_ring(chunks, inside)

# %% wrong · rank 1 counts twice
def hierarchical_all_reduce(x, inside, across):
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank(inside)], across)
    all_reduce_ring(x, inside)

# %% right · by exchange inside, in direct messages
def hierarchical_all_reduce(x, inside, across):
    L, place = dist.get_world_size(inside), dist.get_rank(inside)
    chunks = x.view(-1).tensor_split(L)
    for d in range(1, L):
        got = torch.empty_like(chunks[place])
        exchange(chunks[(place + d) % L], (place + d) % L, got, (place - d) % L, inside)
        chunks[place].add_(got)
    all_reduce_ring(chunks[place], across)
    for d in range(1, L):
        exchange(chunks[place], (place + d) % L, chunks[(place - d) % L], (place - d) % L, inside)

# %% wrong · ask the groups
def hierarchical_all_reduce(x, inside, across):
    L = dist.get_world_size(inside)
    chunks = list(x.view(-1).tensor_split(L))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank() % L], across)
    all_gather_ring(chunks, inside)

# %% wrong · ask the groups
def hierarchical_all_reduce(x, inside, across):
    L = dist.get_world_size(inside)
    chunks = list(x.view(-1).tensor_split(L))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank() - dist.get_rank(across) * L], across)
    all_gather_ring(chunks, inside)

# %% wrong · send it in the dtype of x
def hierarchical_all_reduce(x, inside, across):
    y = x.double()
    chunks = list(y.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank(inside)], across)
    all_gather_ring(chunks, inside)
    x.copy_(y)

# %% wrong · use the rings of collectives.py
def hierarchical_all_reduce(x, inside, across):
    import threading
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(inside)))
    reduce_scatter_ring(chunks, inside)
    t = threading.Thread(target=dist.all_reduce, args=(chunks[dist.get_rank(inside)],), kwargs={"group": across})
    t.start(); t.join()
    all_gather_ring(chunks, inside)

# %% wrong · x needs no filling up
def hierarchical_all_reduce(x, inside, across):
    L = dist.get_world_size(inside)
    y = torch.cat([x.view(-1), x.new_zeros(-x.numel() % (1000 * L))])
    chunks = list(y.tensor_split(L))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[dist.get_rank(inside)], across)
    all_gather_ring(chunks, inside)
    x.copy_(y[: x.numel()].view_as(x))

# %% wrong · only after request.wait()
def hierarchical_all_reduce(x, inside, across):
    from collectives import send, receive
    import time
    L, place = dist.get_world_size(inside), dist.get_rank(inside)
    chunks = list(x.view(-1).tensor_split(L))
    reduce_scatter_ring(chunks, inside)
    all_reduce_ring(chunks[place], across)
    kept = []
    for d in range(1, L):
        kept.append(send(chunks[place], (place + d) % L, inside))
        kept.append(receive(chunks[(place - d) % L], (place - d) % L, inside))
    time.sleep(0.3)
    globals()["kept"] = kept

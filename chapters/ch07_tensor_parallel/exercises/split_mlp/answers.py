# %% given
tensor_parallel = lab("tensor_parallel")

# %% right · autograd's all-reduce, and indices
def split_mlp(x, a, b):
    each = a.shape[1] // dist.get_world_size()
    mine = slice(dist.get_rank() * each, (dist.get_rank() + 1) * each)
    return tensor_parallel.AllReduce.apply(F.gelu(F.linear(x, a.T[mine])) @ b[mine])

# %% right · tensor_split and einsum
def split_mlp(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    a, b = a.tensor_split(n, dim=-1)[rank], b.tensor_split(n)[rank]
    y = torch.einsum("sh,hw->sw", F.gelu(torch.einsum("sw,wh->sh", x, a)), b)
    dist.all_reduce(y, async_op=True).wait()
    return y

# %% wrong · is GELU(p + q) = GELU(p) + GELU(q)?
def split_mlp(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    hidden = F.gelu(x.chunk(n, dim=-1)[rank] @ a.chunk(n, dim=0)[rank])
    columns = hidden @ b.chunk(n, dim=1)[rank]
    parts = [torch.empty_like(columns) for _ in range(n)]
    dist.all_gather(parts, columns)
    return torch.cat(parts, dim=-1)

# %% wrong · Is there a cut of `a` with which
# -     hidden = F.gelu(x @ a.chunk(n, dim=1)[rank])
# -     y = hidden @ b.chunk(n, dim=0)[rank]
# -     dist.all_reduce(y)
# -     return y
# +     hidden = x.chunk(n, dim=-1)[rank] @ a.chunk(n, dim=0)[rank]
# +     dist.all_reduce(hidden)
# +     columns = F.gelu(hidden) @ b.chunk(n, dim=1)[rank]
# +     parts = [torch.empty_like(columns) for _ in range(n)]
# +     dist.all_gather(parts, columns)
# +     return torch.cat(parts, dim=-1)

# %% wrong · every rank does the work of all
def split_mlp(x, a, b):
    return F.gelu(x @ a) @ b

# %% wrong · more is sent than one all-reduce
# -     return y
# +     dist.broadcast(y, 0)
# +     return y

# %% wrong · gets everybody's summands
# -     dist.all_reduce(y)
# -     return y
# +     parts = [torch.empty_like(y) for _ in range(n)]
# +     dist.all_gather(parts, y)
# +     return sum(parts)

# %% wrong · needs its own hidden features alone
# -     y = hidden @ b.chunk(n, dim=0)[rank]
# -     dist.all_reduce(y)
# -     return y
# +     parts = [torch.empty_like(hidden) for _ in range(n)]
# +     dist.all_gather(parts, hidden)
# +     y = torch.cat(parts, 1) @ b.chunk(n, 1)[rank]
# +     parts = [torch.empty_like(y) for _ in range(n)]
# +     dist.all_gather(parts, y)
# +     return torch.cat(parts, 1)

# %% wrong · has other columns than
# -     y = hidden @ b.chunk(n, dim=0)[rank]
# +     y = hidden @ b.chunk(n, dim=1)[rank]

# %% wrong · others do not: all of them need it
# -     dist.all_reduce(y)
# +     dist.reduce(y, 0)

# %% wrong · every rank has to make the same calls
# -     dist.all_reduce(y)
# +     if rank == 0:
# +         dist.all_reduce(y)

# %% right · every n-th hidden feature
def split_mlp(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    y = F.gelu(x @ a[:, rank::n]) @ b[rank::n]
    dist.all_reduce(y)
    return y

# %% wrong · every rank does the work of all
def split_mlp(x, a, b):
    hidden = F.gelu((x[:, :, None] * a).sum(1))
    return (hidden[:, :, None] * b).sum(1)

# %% wrong · with async_op=True a collective returns at once
# -     dist.all_reduce(y)
# +     dist.all_reduce(y, async_op=True)

# %% wrong · is not a part of GELU(p + q)
def split_mlp(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    hidden = F.gelu(x.chunk(n, dim=1)[rank] @ a.chunk(n)[rank])
    y = hidden.chunk(n, dim=1)[rank] @ b.chunk(n)[rank]
    dist.all_reduce(y)
    return y

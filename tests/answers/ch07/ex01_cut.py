# %% right · by its ends
def cut(x, dim, group=None, unit=1):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    sizes = part_sizes(x.shape[dim], n, unit)
    part = x.narrow(dim, sum(sizes[:rank]), sizes[rank])
    return torch.empty(part.shape, dtype=x.dtype, device=x.device).copy_(part)

# %% right · by indices
def cut(x, dim, group=None, unit=1):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    units = torch.arange(x.shape[dim]).view(-1, unit).tensor_split(n)[rank]
    return x.index_select(dim, units.flatten())

# %% right · cloned in order
def cut(x, dim, group=None, unit=1):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    return x.split(part_sizes(x.size(dim), n, unit), dim=dim)[rank].clone().contiguous()

# %% wrong · chunk makes all but the last one equal
def cut(x, dim, group=None, unit=1):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    return x.chunk(n, dim)[rank].clone()

# %% wrong · `unit` is not looked at
def cut(x, dim, group=None, unit=1):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    return x.split(part_sizes(x.shape[dim], n), dim)[rank].clone().contiguous()

# %% wrong · all of x keeps its memory
def cut(x, dim, group=None, unit=1):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    return x.split(part_sizes(x.shape[dim], n, unit), dim)[rank].contiguous()

# %% wrong · clone() keeps the order in memory
def cut(x, dim, group=None, unit=1):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    return x.split(part_sizes(x.shape[dim], n, unit), dim)[rank].clone()

# %% wrong · x.split cuts along dim 0 unless
def cut(x, dim, group=None, unit=1):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    return x.split(part_sizes(x.shape[dim], n, unit))[rank].clone()

# %% wrong · rank times its own size
def cut(x, dim, group=None, unit=1):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    size = part_sizes(x.shape[dim], n, unit)[rank]
    return x.narrow(dim, rank * size, size).clone().contiguous()

# %% wrong · it is a view into a copy of the whole
def cut(x, dim, group=None, unit=1):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    return x.clone().split(part_sizes(x.shape[dim], n, unit), dim)[rank]

# %% wrong · right, in a group of some ranks
def cut(x, dim, group=None, unit=1):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    rank = dist.get_rank()
    sizes = part_sizes(x.shape[dim], n, unit)
    return x.split(sizes, dim)[rank].clone().contiguous()

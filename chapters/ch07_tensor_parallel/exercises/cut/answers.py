# %% right · by its ends
# -     part = x.split(part_sizes(x.shape[dim], n, together), dim)[rank]
# -     return part.clone(memory_format=torch.contiguous_format)
# +     sizes = part_sizes(x.shape[dim], n, together)
# +     part = x.narrow(dim, sum(sizes[:rank]), sizes[rank])
# +     return torch.empty(part.shape, dtype=x.dtype, device=x.device).copy_(part)

# %% right · by indices
# -     part = x.split(part_sizes(x.shape[dim], n, together), dim)[rank]
# -     return part.clone(memory_format=torch.contiguous_format)
# +     groups = torch.arange(x.shape[dim]).view(-1, together).tensor_split(n)[rank]
# +     return x.index_select(dim, groups.flatten())

# %% right · cloned in order
# -     return part.clone(memory_format=torch.contiguous_format)
# +     return part.clone().contiguous()

# %% wrong · chunk makes all but the last one equal
# -     part = x.split(part_sizes(x.shape[dim], n, together), dim)[rank]
# +     part = x.chunk(n, dim)[rank]

# %% wrong · all of x keeps its memory
# -     return part.clone(memory_format=torch.contiguous_format)
# +     return part.contiguous()

# %% wrong · contiguous() returns x itself
# -     return part.clone(memory_format=torch.contiguous_format)
# +     return part.clone().contiguous() if n > 1 else part.contiguous()

# %% wrong · clone() keeps the order in memory
# -     return part.clone(memory_format=torch.contiguous_format)
# +     return part.clone()

# %% wrong · x.split cuts along dim 0 unless
# -     part = x.split(part_sizes(x.shape[dim], n, together), dim)[rank]
# +     part = x.split(part_sizes(x.shape[dim], n, together))[rank]

# %% wrong · it is a view into a copy of the whole
# -     part = x.split(part_sizes(x.shape[dim], n, together), dim)[rank]
# -     return part.clone(memory_format=torch.contiguous_format)
# +     return x.clone().split(part_sizes(x.shape[dim], n, together), dim)[rank]

# %% wrong · right, in a group of some ranks
# -     part = x.split(part_sizes(x.shape[dim], n, together), dim)[rank]
# +     part = x.split(part_sizes(x.shape[dim], n, together), dim)[dist.get_rank()]

# %% right · single indices, stacked
# -     part = x.split(part_sizes(x.shape[dim], n, together), dim)[rank]
# -     return part.clone(memory_format=torch.contiguous_format)
# +     sizes = part_sizes(x.shape[dim], n, together)
# +     start = sum(sizes[:rank])
# +     return torch.stack(x.unbind(dim)[start : start + sizes[rank]], dim)

# %% wrong · the parts are in the order of the ranks
# -     part = x.split(part_sizes(x.shape[dim], n, together), dim)[rank]
# +     part = x.split(part_sizes(x.shape[dim], n, together), dim)[n - 1 - rank]

# %% wrong · filled up with zeros
# -     return part.clone(memory_format=torch.contiguous_format)
# +     shape = list(part.shape)
# +     shape[dim] = part_sizes(x.shape[dim], n, together)[0]
# +     room = x.new_zeros(shape)
# +     room.narrow(dim, 0, part.shape[dim]).copy_(part)
# +     return room

# %% wrong · exit() and the like end the whole process
# -     return part.clone(memory_format=torch.contiguous_format)
# +     raise SystemExit

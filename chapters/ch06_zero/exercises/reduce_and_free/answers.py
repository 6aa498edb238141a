# %% right · freed before it travels, in one tensor
# -     chunks = list(flat.chunk(n))
# -     mine = torch.empty_like(chunks[rank])
# -     dist.reduce_scatter(mine, chunks)
# +     mine = flat.new_empty(len(flat) // n)
# +     dist.reduce_scatter_tensor(mine, flat)
# -         p.grad = None
# +         del p.grad

# %% right · a new tensor is returned
# -     mine = torch.empty_like(chunks[rank])
# +     mine = chunks[rank]
# -     return mine.div_(n)
# +     return mine / n

# %% right · a copy of its part of the sum
# -     mine = torch.empty_like(chunks[rank])
# -     dist.reduce_scatter(mine, chunks)
# +     dist.all_reduce(flat)
# -     return mine.div_(n)
# +     return chunks[rank].clone() / n

# %% wrong · keeps 160 bytes alive; and the parameters still have 3 gradients, of 152 bytes the numbers
# -     mine = torch.empty_like(chunks[rank])
# +     mine = chunks[rank]
# -         p.grad = None
# +         p.grad.zero_()

# %% wrong · whatever names are deleted
# -     mine = torch.empty_like(chunks[rank])
# +     mine = chunks[rank]
# -         p.grad = None
# +         p.grad = None
# +     del flat, chunks

# %% wrong · as many bytes as any other
# -         p.grad = None
# +         p.grad = torch.zeros_like(p)

# %% wrong · `del` of such a name
# -         p.grad = None
# +         grad = p.grad
# +         del grad

# %% wrong · divided by n: nothing has been added
# -     mine = torch.empty_like(chunks[rank])
# -     dist.reduce_scatter(mine, chunks)
# +     mine = chunks[rank].clone()

# %% wrong · first copy all of them
# -     rank, n = dist.get_rank(), dist.get_world_size()
# +     rank, n = dist.get_rank(), dist.get_world_size()
# +     for p in parameters:
# +         p.grad = None

# %% wrong · have to be equally long
# -     flat = F.pad(flat, (0, -len(flat) % n))
# -     chunks = list(flat.chunk(n))
# +     chunks = list(flat.chunk(n))
# -     mine = torch.empty_like(chunks[rank])
# +     mine = torch.empty_like(chunks[0])

# %% wrong · they are empty now, but they are there
# -         p.grad = None
# +         p.grad.data = torch.empty(0, dtype=p.dtype)

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

# %% wrong · the numbers are right, as before
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

# %% wrong · gradients are summed up; asked
# -     return mine.div_(n)
# +     return mine

# %% wrong · divided by the number of ranks once more
# -     return mine.div_(n)
# +     return mine.div_(n * n)

# %% wrong · divided by n, and nothing has been added
# -     mine = torch.empty_like(chunks[rank])
# -     dist.reduce_scatter(mine, chunks)
# +     mine = chunks[rank].clone()

# %% wrong · the rank's own gradient
# -     mine = torch.empty_like(chunks[rank])
# -     dist.reduce_scatter(mine, chunks)
# +     mine = chunks[rank].clone()
# -     return mine.div_(n)
# +     return mine

# %% wrong · this is rank 0's part
# -     return mine.div_(n)
# +     mine /= n
# +     dist.broadcast(mine, 0)
# +     return mine

# %% wrong · that is all of it, with padding
# -     mine = torch.empty_like(chunks[rank])
# -     dist.reduce_scatter(mine, chunks)
# +     dist.all_reduce(flat)
# -     return mine.div_(n)
# +     return flat.div_(n)

# %% wrong · all parts are equally long
# -     return mine.div_(n)
# +     length = sum(p.numel() for p in parameters)
# +     return mine.div_(n)[: max(0, length - rank * len(mine))]

# %% wrong · a function without `return`
# -     return mine.div_(n)
# +     mine.div_(n)

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

# %% right · rows and their mirror
def zigzag(context, n):
    rows = torch.arange(context).view(2 * n, -1)
    return [rows[[rank, -1 - rank]].flatten() for rank in range(n)]

# %% right · of ranges
def zigzag(context, n):
    size = context // (2 * n)
    starts = [(rank * size, (2 * n - 1 - rank) * size) for rank in range(n)]
    return [torch.tensor([*range(a, a + size), *range(b, b + size)]) for a, b in starts]

# %% wrong · these are pieces in a row
def zigzag(context, n):
    return contiguous_places(context, n)

# %% wrong · dealt out in turns
def zigzag(context, n):
    return [torch.arange(rank, context, n) for rank in range(n)]

# %% wrong · the earliest with the latest one
# -     return [torch.cat([pieces[rank], pieces[2 * n - 1 - rank]]) for rank in range(n)]
# +     return [torch.cat([pieces[rank], pieces[rank + n]]) for rank in range(n)]

# %% wrong · the early piece comes first
# -     return [torch.cat([pieces[rank], pieces[2 * n - 1 - rank]]) for rank in range(n)]
# +     return [torch.cat([pieces[2 * n - 1 - rank], pieces[rank]]) for rank in range(n)]

# %% wrong · one tensor of places
# -     return [torch.cat([pieces[rank], pieces[2 * n - 1 - rank]]) for rank in range(n)]
# +     return [[pieces[rank], pieces[2 * n - 1 - rank]] for rank in range(n)]

# %% wrong · places stay in order
# -     return [torch.cat([pieces[rank], pieces[2 * n - 1 - rank]]) for rank in range(n)]
# +     return [torch.cat([pieces[rank], pieces[2 * n - 1 - rank].flip(0)]) for rank in range(n)]

# %% wrong · indices: whole numbers
def zigzag(context, n):
    pieces = torch.arange(context, dtype=torch.float64).chunk(2 * n)
    return [torch.cat([pieces[r], pieces[2 * n - 1 - r]]) for r in range(n)]

# %% right · the solution
def cut_fused(weight, heads, kv_heads, rank, n):
    size = len(weight) // (heads + 2 * kv_heads)
    q, k, v = weight.split([heads * size, kv_heads * size, kv_heads * size])
    return torch.cat([part.chunk(n)[rank] for part in (q, k, v)])

# %% right · one head after another
def cut_fused(weight, heads, kv_heads, rank, n):
    of_heads = weight.view(heads + 2 * kv_heads, -1, weight.shape[1])
    q, kv = heads // n, kv_heads // n
    chosen = [*range(rank * q, rank * q + q)]
    for start in (heads, heads + kv_heads):
        chosen += range(start + rank * kv, start + rank * kv + kv)
    return of_heads[chosen].flatten(0, 1)

# %% right · slices
def cut_fused(weight, heads, kv_heads, rank, n):
    size = weight.shape[0] // (heads + 2 * kv_heads)
    rows, start = [], 0
    for count in (heads, kv_heads, kv_heads):
        own = count * size // n
        rows.append(weight[start + rank * own : start + (rank + 1) * own])
        start += count * size
    return torch.vstack(rows)

# %% wrong · the matrix is cut as if it were one
def cut_fused(weight, heads, kv_heads, rank, n):
    return weight.chunk(n)[rank]

# %% wrong · three equal sections
def cut_fused(weight, heads, kv_heads, rank, n):
    return torch.cat([part.chunk(n)[rank] for part in weight.tensor_split(3)])

# %% wrong · do not add up to the rows
def cut_fused(weight, heads, kv_heads, rank, n):
    size = len(weight) // (3 * heads)
    return torch.cat([part.chunk(n)[rank] for part in weight.split(heads * size if kv_heads == heads
                                                                   else [heads * size] * 3)])

# %% wrong · ordered by heads
def cut_fused(weight, heads, kv_heads, rank, n):
    size, own = len(weight) // (heads + 2 * kv_heads), kv_heads // n
    sections = weight.split([heads * size, kv_heads * size, kv_heads * size])
    parts = [part.chunk(n)[rank].view(own, -1, weight.shape[1]) for part in sections]
    return torch.cat(parts, dim=1).flatten(0, 1)

# %% wrong · another rank's rows
def cut_fused(weight, heads, kv_heads, rank, n):
    size = len(weight) // (heads + 2 * kv_heads)
    sections = weight.split([heads * size, kv_heads * size, kv_heads * size])
    return torch.cat([part.chunk(n)[0] for part in sections])

# %% wrong · this tears the heads apart
def cut_fused(weight, heads, kv_heads, rank, n):
    size = len(weight) // (heads + 2 * kv_heads)
    sections = weight.split([heads * size, kv_heads * size, kv_heads * size])
    return torch.cat([part[rank::n] for part in sections])

# %% wrong · every n-th of the heads
def cut_fused(weight, heads, kv_heads, rank, n):
    size = len(weight) // (heads + 2 * kv_heads)
    parts = weight.unflatten(0, (-1, size)).split([heads, kv_heads, kv_heads])
    return torch.cat([part[rank::n].flatten(0, 1) for part in parts])

# %% wrong · every rank has all keys and values
# -     return torch.cat([part.chunk(n)[rank] for part in (q, k, v)])
# +     return torch.cat([q.chunk(n)[rank], k, v])

# %% wrong · the columns are cut
def cut_fused(weight, heads, kv_heads, rank, n):
    return weight.chunk(n, dim=1)[rank]

# %% wrong · torch.cat puts the three sections together
def cut_fused(weight, heads, kv_heads, rank, n):
    size = len(weight) // (heads + 2 * kv_heads)
    sections = weight.split([heads * size, kv_heads * size, kv_heads * size])
    return [part.chunk(n)[rank] for part in sections]

# %% wrong · // gives a whole number
def cut_fused(weight, heads, kv_heads, rank, n):
    size = len(weight) / (heads + 2 * kv_heads)
    return torch.cat([part.chunk(n)[rank] for part in weight.split(
        [heads * size, kv_heads * size, kv_heads * size])])

# %% wrong · the right rows in another order
# -     return torch.cat([part.chunk(n)[rank] for part in (q, k, v)])
# +     return torch.cat([part.chunk(n)[rank] for part in (k, q, v)])

# %% wrong · a function without `return`
def cut_fused(weight, heads, kv_heads, rank, n):
    weight.chunk(n)

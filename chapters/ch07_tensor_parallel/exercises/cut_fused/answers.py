# %% right · whose each row is
def cut_fused(weight, heads, kv_heads, rank, n):
    size = len(weight) // (heads + 2 * kv_heads)
    rows = [size * k for k in (heads, kv_heads, kv_heads)]
    owner = torch.cat([torch.arange(k) * n // k for k in rows])
    return weight[owner == rank]

# %% right · slices
# -     q, k, v = weight.split([heads * size, kv_heads * size, kv_heads * size])
# -     return torch.cat([part.chunk(n)[rank] for part in (q, k, v)])
# +     rows, start = [], 0
# +     for count in (heads, kv_heads, kv_heads):
# +         own = count * size // n
# +         rows.append(weight[start + rank * own : start + (rank + 1) * own])
# +         start += count * size
# +     return torch.vstack(rows)

# %% wrong · the matrix is cut as if it were one
def cut_fused(weight, heads, kv_heads, rank, n):
    return weight.chunk(n)[rank]

# %% wrong · do not add up to the rows
# -     size = len(weight) // (heads + 2 * kv_heads)
# -     q, k, v = weight.split([heads * size, kv_heads * size, kv_heads * size])
# +     q, k, v = weight.split([len(weight) // (3 * heads) * heads] * 3)

# %% wrong · // gives a whole number
# -     size = len(weight) // (heads + 2 * kv_heads)
# +     size = len(weight) / (heads + 2 * kv_heads)

# %% wrong · the right rows in another order
# -     return torch.cat([part.chunk(n)[rank] for part in (q, k, v)])
# +     return torch.cat([part.chunk(n)[rank] for part in (k, q, v)])

# %% wrong · a head is torn apart
# -     return torch.cat([part.chunk(n)[rank] for part in (q, k, v)])
# +     return torch.cat([part.roll(1, 0).chunk(n)[rank] for part in (q, k, v)])

# %% wrong · a function without `return`
def cut_fused(weight, heads, kv_heads, rank, n):
    weight.chunk(n)

# %% right · a head's size from the width, as in the course's Attention
def cut_fused(weight, heads, kv_heads, rank, n):
    size = weight.shape[1] // heads
    rows = torch.arange(len(weight)).view(-1, size)
    of_rank = [kind.chunk(n)[rank] for kind in rows.split([heads, kv_heads, kv_heads])]
    return weight[torch.cat(of_rank).flatten()]

# %% wrong · two sections begin at the same row
def cut_fused(weight, heads, kv_heads, rank, n):
    size = len(weight) // (heads + 2 * kv_heads)
    counts = heads, kv_heads, kv_heads
    return torch.cat([weight[: count * size].chunk(n)[rank] for count in counts])

# %% wrong · another rank's rows
def cut_fused(weight, heads, kv_heads, rank, n):
    size = len(weight) // (heads + 2 * kv_heads)
    sections = weight.split([heads * size, kv_heads * size, kv_heads * size])
    return torch.cat([section.chunk(n)[n - 1 - rank] for section in sections])

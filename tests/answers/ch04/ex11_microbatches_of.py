# %% right · neighbours, by rounding
def microbatches_of(rank, n, m):
    return list(range(rank * m // n, (rank + 1) * m // n))

# %% right · tensor_split
def microbatches_of(rank, n, m):
    return torch.arange(m).tensor_split(n)[rank].tolist()

# %% right · one by one
def microbatches_of(rank, n, m):
    return [k for k in range(m) if k % n == rank]

# %% wrong · and what is left over has nobody
def microbatches_of(rank, n, m):
    each = m // n
    return list(range(rank * each, (rank + 1) * each))

# %% wrong · the number rounded up
def microbatches_of(rank, n, m):
    each = -(-m // n)
    return list(range(rank * each, min((rank + 1) * each, m)))

# %% wrong · one rank takes all that is left over
def microbatches_of(rank, n, m):
    each = m // n
    return list(range(rank * each, m if rank == n - 1 else (rank + 1) * each))

# %% wrong · every rank has all micro-batches
def microbatches_of(rank, n, m):
    return list(range(m))

# %% wrong · the numbers 0 to m - 1
def microbatches_of(rank, n, m):
    return list(range(rank + 1, m + 1, n))

# %% wrong · that of micro-batches
def microbatches_of(rank, n, m):
    return list(range(rank, n, m))

# %% wrong · the one with its own number
def microbatches_of(rank, n, m):
    return [rank]

# %% wrong · a list of whole numbers
def microbatches_of(rank, n, m):
    return m // n + (rank < m % n)

# %% wrong · no rank has two more than another
def microbatches_of(rank, n, m):
    if m < 2 * n:
        return list(range(rank, m, n))
    return list(range(1 if rank == 0 else 2 * rank - 1, 2 * rank + 1)) + (
        [0] + list(range(2 * n - 1, m)) if rank == 0 else [])

# %% wrong · a list of whole numbers
def microbatches_of(rank, n, m):
    list(range(rank, m, n))

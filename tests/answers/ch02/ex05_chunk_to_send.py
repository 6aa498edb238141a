# %% right · down from the one before
def chunk_to_send(rank, step, n):
    return (rank - step - 1) % n

# %% right · n * n more, so that it is never negative
def chunk_to_send(rank, step, n):
    return (rank + n * n - 1 - step) % n

# %% wrong · begin with another one
def chunk_to_send(rank, step, n):
    return (rank - step) % n

# %% wrong · always sends the same chunk
def chunk_to_send(rank, step, n):
    return (rank - 1) % n

# %% wrong · take % n
def chunk_to_send(rank, step, n):
    return rank - step - 1

# %% wrong · all ranks send the same chunk
def chunk_to_send(rank, step, n):
    return step % n

# %% wrong · go down by one
def chunk_to_send(rank, step, n):
    return (rank + step + 1) % n

# %% wrong · without `return`
def chunk_to_send(rank, step, n):
    (rank - step - 1) % n

# %% wrong · nobody ever sends chunk 3: the numbers turn round too early
def chunk_to_send(rank, step, n):
    return (rank - 1 - step) % (n - 1)

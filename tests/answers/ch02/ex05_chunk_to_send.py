# %% right · down from the one before
def chunk_to_send(rank, step, n):
    return (rank - step) % n

# %% right · n * n more, so that it is never negative
def chunk_to_send(rank, step, n):
    return (rank + n * n - step) % n

# %% wrong · begin with another one
def chunk_to_send(rank, step, n):
    return (rank - step + 1) % n

# %% wrong · The first step is step 1
def chunk_to_send(rank, step, n):
    return (rank - step - 1) % n

# %% wrong · always sends the same chunk
def chunk_to_send(rank, step, n):
    return (rank - 1) % n

# %% wrong · take % n
def chunk_to_send(rank, step, n):
    return rank - step

# %% wrong · all ranks send the same chunk
def chunk_to_send(rank, step, n):
    return step % n

# %% wrong · go down by one
def chunk_to_send(rank, step, n):
    return (rank + step) % n

# %% wrong · without `return`
def chunk_to_send(rank, step, n):
    (rank - step) % n

# %% wrong · nobody ever sends chunk 3: the numbers turn round too early
def chunk_to_send(rank, step, n):
    return (rank - step) % (n - 1)

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

# %% right · a list rolled
def chunk_to_send(rank, step, n):
    return torch.arange(n).roll(step)[rank]

# %% right · of numpy
import numpy as np
def chunk_to_send(rank, step, n):
    return np.mod(rank - step, n)

# %% wrong · a list takes whole numbers alone
import math
def chunk_to_send(rank, step, n):
    return math.fmod(rank - step + n, n)

# %% wrong · a list takes whole numbers alone
def chunk_to_send(rank, step, n):
    return (rank - step) % n + 0.5

# %% wrong · expected a number
def chunk_to_send(rank, step, n):
    chunk = (rank - step) % n
    return bool(chunk) if chunk < 2 else chunk

# %% wrong · a list takes whole numbers alone
def chunk_to_send(rank, step, n):
    return float("nan")

# %% wrong · exit() would end
def chunk_to_send(rank, step, n):
    import sys; sys.exit()

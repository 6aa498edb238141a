# %% right · steps
def my_samples(n, rank, world_size):
    return list(range(rank, n, world_size))

# %% right · a range
def my_samples(n, rank, world_size):
    return range(n)[rank::world_size]

# %% right · a condition
def my_samples(n, rank, world_size):
    return [i for i in range(n) if i % world_size == rank]

# %% wrong · each takes a block
def my_samples(n, rank, world_size):
    return list(range(n))[n // world_size * rank : n // world_size * (rank + 1)]

# %% wrong · taken twice
def my_samples(n, rank, world_size):
    each = -(-n // world_size)
    return [i % n for i in range(rank, each * world_size, world_size)]

# %% wrong · some samples are lost
def my_samples(n, rank, world_size):
    return list(range(rank, n // world_size * world_size, world_size))

# %% wrong · from 0 to n - 1
def my_samples(n, rank, world_size):
    return list(range(rank, n + world_size, world_size))

# %% wrong · belongs to rank i % world_size
def my_samples(n, rank, world_size):
    # As teams are picked: 0 1 2 2 1 0.
    rounds = [list(range(n))[i : i + world_size] for i in range(0, n, world_size)]
    turns = [row if k % 2 == 0 else row[::-1] for k, row in enumerate(rounds)]
    return [row[rank] for row in turns if rank < len(row)]

# %% wrong · behind `return`
def my_samples(n, rank, world_size):
    list(range(rank, n, world_size))

# %% wrong · expected a list of indices, got 0
def my_samples(n, rank, world_size):
    return rank

# %% right · dealing cards
def my_samples(n, rank, world_size):
    hands = [[] for _ in range(world_size)]
    for sample in range(n):
        hands[sample % world_size].append(sample)
    return hands[rank]

# %% right · a tensor
def my_samples(n, rank, world_size):
    return torch.arange(n)[rank::world_size]

# %% wrong · 1, and not 1.0
import numpy as np
def my_samples(n, rank, world_size):
    return np.arange(rank, n, world_size, dtype=float)

# %% wrong · 1, and not 1.0
def my_samples(n, rank, world_size):
    return torch.linspace(0, n - 1, n)[rank::world_size]

# %% wrong · 1, and not 1.0
def my_samples(n, rank, world_size):
    rows = -(-n // world_size)
    return [i / 1 * world_size + rank for i in range(rows) if i * world_size + rank < n]

# %% wrong · each takes a block
import numpy as np
def my_samples(n, rank, world_size):
    return np.array_split(np.arange(n), world_size)[rank]

# %% wrong · in this order
def my_samples(n, rank, world_size):
    return list(range(rank, n, world_size))[::-1]

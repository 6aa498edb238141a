# %% right · a list
def shares(sizes):
    return [size / sum(sizes) for size in sizes]

# %% right · a tensor
def shares(sizes):
    return torch.tensor(sizes).double() / sum(sizes)

# %% wrong · counts the same here
def shares(sizes):
    return [1 / len(sizes) for _ in sizes]

# %% wrong · not the mean
def shares(sizes):
    return sizes

# %% wrong · without `return`
def shares(sizes):
    [size / sum(sizes) for size in sizes]

# %% wrong · one factor for each micro-batch: a list
def shares(sizes):
    return sizes[0] / sum(sizes)

# %% wrong · as many times too large as there are micro-batches
# -     return [size / sum(sizes) for size in sizes]
# +     return [size * len(sizes) / sum(sizes) for size in sizes]

# %% wrong · right to seven digits
def shares(sizes):
    return torch.tensor(sizes) / sum(sizes)

# %% wrong · right to seven digits
def shares(sizes):
    return (torch.tensor(sizes, dtype=torch.float32) / sum(sizes)).tolist()

# %% right · numpy
import numpy as np
def shares(sizes):
    return np.array(sizes) / np.sum(sizes)

# %% right · fractions
from fractions import Fraction
def shares(sizes):
    return [Fraction(size, sum(sizes)) for size in sizes]

# %% wrong · contains those before it
def shares(sizes):
    total, done = sum(sizes), []
    seen = 0
    for size in sizes:
        seen += size
        done.append(seen / total)
    return done

# %% wrong · until then
def shares(sizes):
    seen, out = 0, []
    for size in sizes:
        seen += size
        out.append(size / seen)
    return out

# %% wrong · in percent
def shares(sizes):
    return [100 * size / sum(sizes) for size in sizes]

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

# %% wrong · count more, not less
def shares(sizes):
    return [1 / size for size in sizes]

# %% wrong · compare with the largest micro-batch
def shares(sizes):
    return [size / max(sizes) for size in sizes]

# %% wrong · compare with the first micro-batch
def shares(sizes):
    return [size / sizes[0] for size in sizes]

# %% wrong · // cuts the fraction off
def shares(sizes):
    return [size // sum(sizes) for size in sizes]

# %% wrong · not samples
def shares(sizes):
    return [size / len(sizes) for size in sizes]

# %% wrong · what your function returns is its last line
def shares(sizes):
    [size / sum(sizes) for size in sizes]

# %% wrong · 5 times too large
def shares(sizes):
    return [size * len(sizes) / sum(sizes) for size in sizes]

# %% wrong · factor of one sample
def shares(sizes):
    return [1 / sum(sizes) for _ in sizes]

# %% wrong · upside down
def shares(sizes):
    return [sum(sizes) / size for size in sizes]

# %% wrong · one factor for each micro-batch: a list
def shares(sizes):
    return sizes[0] / sum(sizes)

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

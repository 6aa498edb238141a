# %% right · three kinds of blocks
def visible(rank, source, length):
    ones = torch.ones(length, length, dtype=torch.bool)
    if source == rank:
        return ones.tril()
    return ones if source < rank else ~ones

# %% right · a moved triangle
def visible(rank, source, length):
    return torch.ones(length, length, dtype=torch.bool).tril((rank - source) * length)

# %% wrong · as if it were the rank's own
def visible(rank, source, length):
    return torch.ones(length, length, dtype=torch.bool).tril()

# %% wrong · have changed places
def visible(rank, source, length):
    places = torch.arange(length)
    return rank * length + places <= (source * length + places).unsqueeze(-1)

# %% wrong · a query sees its own place
def visible(rank, source, length):
    places = torch.arange(length)
    return source * length + places < (rank * length + places).unsqueeze(-1)

# %% wrong · it is the other way round
def visible(rank, source, length):
    places = torch.arange(length)
    return (source * length + places).unsqueeze(-1) <= rank * length + places

# %% wrong · pieces behind this one are later
def visible(rank, source, length):
    ones = torch.ones(length, length, dtype=torch.bool)
    return ones.tril() if rank == source else ones

# %% wrong · there is no triangle in it
def visible(rank, source, length):
    ones = torch.ones(length, length, dtype=torch.bool)
    return ones.tril() if source <= rank else ~ones

# %% wrong · earlier part of its own piece
def visible(rank, source, length):
    return torch.full((length, length), source < rank)

# %% wrong · bool
def visible(rank, source, length):
    places = torch.arange(length)
    return (source * length + places <= (rank * length + places).unsqueeze(-1)).int()

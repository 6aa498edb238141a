# %% right · from the strides
def coordinates(rank, sizes):
    places, stride = {}, 1
    for axis in list(sizes)[::-1]:
        places[axis] = rank // stride % sizes[axis]
        stride *= sizes[axis]
    return places

# %% right · torch's own
def coordinates(rank, sizes):
    places = torch.unravel_index(torch.tensor(rank), tuple(sizes.values()))
    return {axis: int(place) for axis, place in zip(sizes, places)}

# %% wrong · here the first axis changes fastest
def coordinates(rank, sizes):
    places = {}
    for axis in sizes:
        rank, places[axis] = divmod(rank, sizes[axis])
    return places

# %% wrong · without `return`
def coordinates(rank, sizes):
    places = {}
    for axis in list(sizes)[::-1]:
        rank, places[axis] = divmod(rank, sizes[axis])

# %% wrong · a dict that has a place for each axis
def coordinates(rank, sizes):
    places = []
    for size in reversed(sizes.values()):
        rank, place = divmod(rank, size)
        places.insert(0, place)
    return places

# %% wrong · places are whole numbers
def coordinates(rank, sizes):
    at = {}
    for axis, size in reversed(sizes.items()):
        at[axis] = float(rank % size)
        rank //= size
    return at

# %% wrong · SystemExit
def coordinates(rank, sizes):
    exit()

# %% right · a slice
def share_of_copy(batch, mesh):
    size = len(batch) // mesh.sizes["dp"]
    return batch[mesh.at["dp"] * size :][:size]

# %% right · by the group
def share_of_copy(batch, mesh):
    return batch.tensor_split(dist.get_world_size(mesh["dp"]))[dist.get_rank(mesh["dp"])]

# %% wrong · each rank has samples of its own here
def share_of_copy(batch, mesh):
    return batch.chunk(dist.get_world_size())[dist.get_rank()]

# %% wrong · mesh.at tells it
def share_of_copy(batch, mesh):
    return batch.chunk(mesh.sizes["dp"])[dist.get_rank() % mesh.sizes["dp"]]

# %% wrong · each rank has the whole batch
def share_of_copy(batch, mesh):
    return batch

# %% wrong · dealt out in turns
def share_of_copy(batch, mesh):
    return batch[mesh.at["dp"] :: mesh.sizes["dp"]]

# %% wrong · this is the place along tp
def share_of_copy(batch, mesh):
    return batch.chunk(mesh.sizes["tp"])[mesh.at["tp"]]

# %% wrong · without `return`
def share_of_copy(batch, mesh):
    batch.chunk(mesh.sizes["dp"])[mesh.at["dp"]]

# %% wrong · belongs to the caller
def share_of_copy(batch, mesh):
    share = batch.chunk(mesh.sizes["dp"])[mesh.at["dp"]].clone()
    batch.zero_()
    return share

# %% wrong · IndexError
def share_of_copy(batch, mesh):
    samples = batch.shape[0] // mesh.sizes["dp"]
    first = mesh.at["dp"] * samples
    return batch[first : first + samples, :]

# %% right · into one tensor, piece by piece
def average_over_copies(parameters, mesh):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return
    flat = gradients[0].new_empty(sum(g.numel() for g in gradients))
    begin = 0
    for g in gradients:
        flat[begin : begin + g.numel()] = g.flatten()
        begin += g.numel()
    dist.all_reduce(flat, group=mesh["dp"])
    flat /= mesh.sizes["dp"]
    begin = 0
    for g in gradients:
        g.copy_(flat[begin : begin + g.numel()].view(g.shape))
        begin += g.numel()

# %% right · new gradients
def average_over_copies(parameters, mesh):
    mine = [p for p in parameters if p.grad is not None]
    if not mine:
        return
    flat = torch.nn.utils.parameters_to_vector([p.grad.contiguous() for p in mine])
    dist.all_reduce(flat, group=mesh["dp"])
    pieces = flat.split([p.numel() for p in mine])
    for p, piece in zip(mine, pieces):
        p.grad = piece.reshape(p.shape) / dist.get_world_size(mesh["dp"])

# %% wrong · this is the sum over the copies
# -     parts = (flat / mesh.sizes["dp"]).split([g.numel() for g in gradients])
# +     parts = flat.split([g.numel() for g in gradients])

# %% wrong · divided by the number of all ranks
# -     parts = (flat / mesh.sizes["dp"]).split([g.numel() for g in gradients])
# +     parts = (flat / dist.get_world_size()).split([g.numel() for g in gradients])

# %% wrong · all ranks of the world are in this mean
def average_over_copies(parameters, mesh):
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.reshape(-1) for g in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for g, part in zip(gradients, flat.split([g.numel() for g in gradients])):
        g.copy_(part.view_as(g))

# %% wrong · added up along tp
# -     dist.all_reduce(flat, group=mesh["dp"])
# -     parts = (flat / mesh.sizes["dp"]).split([g.numel() for g in gradients])
# +     dist.all_reduce(flat, group=mesh["tp"])
# +     parts = (flat / mesh.sizes["tp"]).split([g.numel() for g in gradients])

# %% wrong · nobody has averaged them
def average_over_copies(parameters, mesh):
    flat = torch.cat([p.grad.reshape(-1) for p in parameters if p.grad is not None])
    dist.all_reduce(flat, group=mesh["dp"])
    flat /= mesh.sizes["dp"]

# %% wrong · Put all gradients into one
def average_over_copies(parameters, mesh):
    for p in parameters:
        if p.grad is not None:
            g = p.grad.contiguous()
            dist.all_reduce(g, group=mesh["dp"])
            p.grad = g / mesh.sizes["dp"]

# %% wrong · Leave it out
def average_over_copies(parameters, mesh):
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    dist.all_reduce(flat, group=mesh["dp"])

# %% wrong · reshape(-1) makes a row of it
def average_over_copies(parameters, mesh):
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.contiguous().view(g.shape[0], -1).flatten() if g.dim() > 1 else g
                      for g in gradients])
    dist.all_reduce(flat, group=mesh["dp"])

# %% wrong · a gradient that was None is a tensor now
def average_over_copies(parameters, mesh):
    for p in parameters:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    dist.all_reduce(flat, group=mesh["dp"])
    flat /= mesh.sizes["dp"]
    for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
        p.grad.copy_(part.view_as(p))

# %% wrong · there is nothing to average
def average_over_copies(parameters, mesh):
    flat = torch.cat([p.grad.reshape(-1) for p in parameters if p.grad is not None])
    dist.all_reduce(flat, group=mesh["dp"])
    flat /= mesh.sizes["dp"]
    for p in parameters:
        if p.grad is not None:
            p.grad.copy_(flat[: p.numel()].view_as(p.grad))
            flat = flat[p.numel() :]

# %% wrong · float64
def average_over_copies(parameters, mesh):
    learning = [p for p in parameters if p.grad is not None]
    flat = torch.cat([torch.zeros(0, dtype=torch.float64)] + [p.grad.flatten() for p in learning])
    if len(flat):
        dist.all_reduce(flat, group=mesh["dp"])
    for p, part in zip(learning, (flat / mesh.sizes["dp"]).split([p.numel() for p in learning])):
        p.data = p.data.double()
        p.grad = part.view_as(p)

# %% wrong · nobody has waited
def average_over_copies(parameters, mesh):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if gradients:
        flat = torch.cat([g.reshape(-1) for g in gradients])
        dist.all_reduce(flat, group=mesh["dp"], async_op=True)
        flat /= mesh.sizes["dp"]
        for g, part in zip(gradients, flat.split([g.numel() for g in gradients])):
            g.copy_(part.view_as(g))

# %% right · two sums, over tp and then over pp
def global_norm(parameters, mesh, counted_elsewhere=()):
    cut, whole = torch.zeros(2, dtype=torch.float64)
    for p in parameters:
        if p.grad is None or any(p is q for q in counted_elsewhere):
            continue
        square = (p.grad.double() ** 2).sum()
        if hasattr(p, "cut_dim"):
            cut = cut + square
        else:
            whole = whole + square
    dist.all_reduce(cut, group=mesh["tp"])
    total = cut + whole
    dist.all_reduce(total, group=mesh["pp"])
    return total ** 0.5

# %% right · what is not cut counts as a share on each rank
def global_norm(parameters, mesh, counted_elsewhere=()):
    skip = set(map(id, counted_elsewhere))
    total = torch.zeros((), dtype=torch.float64)
    for p in parameters:
        if id(p) not in skip and p.grad is not None:
            share = 1 if hasattr(p, "cut_dim") else 1 / mesh.sizes["tp"]
            total = total + share * p.grad.square().sum()
    dist.all_reduce(total, group=mesh["pp", "tp"])
    return total.sqrt()

# %% wrong · let one of these ranks count it
# -         counts = hasattr(p, "cut_dim") or mesh.at["tp"] == 0
# +         counts = True

# %% wrong · those in counted_elsewhere are left out
# -         if counts and p.grad is not None and id(p) not in skipped:
# +         if counts and p.grad is not None:

# %% wrong · the other stages have gradients, too
# -     dist.all_reduce(squares, group=mesh["pp", "tp"])
# +     dist.all_reduce(squares, group=mesh["tp"])

# %% wrong · each copy of the model has the same gradient now
# -     dist.all_reduce(squares, group=mesh["pp", "tp"])
# +     dist.all_reduce(squares)

# %% wrong · the root comes last
# -     return squares.sqrt()
# +     return squares

# %% wrong · would shorten differently
def global_norm(parameters, mesh, counted_elsewhere=()):
    return torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])

# %% wrong · each rank finds another length
# -     dist.all_reduce(squares, group=mesh["pp", "tp"])
# +     dist.all_reduce(squares, group=mesh["pp"])

# %% wrong · it counts as zeros
# -         if counts and p.grad is not None and id(p) not in skipped:
# +         if counts and id(p) not in skipped:

# %% wrong · Compare which object
# -         if counts and p.grad is not None and id(p) not in skipped:
# +         if counts and p.grad is not None and p not in counted_elsewhere:

# %% wrong · is of float32 unless told otherwise
# -     squares = torch.zeros((), dtype=torch.float64)
# +     squares = torch.zeros(()) if mesh.at["tp"] else torch.zeros((), dtype=torch.float64)

# %% wrong · it is only to be measured
# -             squares += p.grad.double().pow(2).sum()
# +             squares += p.grad.pow_(2).sum()

# %% wrong · this rank has nothing to count
def global_norm(parameters, mesh, counted_elsewhere=()):
    skip = set(map(id, counted_elsewhere))
    squares = sum(
        p.grad.pow(2).sum() for p in parameters
        if p.grad is not None and id(p) not in skip and (hasattr(p, "cut_dim") or mesh.at["tp"] == 0)
    )
    dist.all_reduce(squares, group=mesh["pp", "tp"])
    return squares.sqrt()

# %% wrong · asked is a tensor with one number
# -     return squares.sqrt()
# +     return squares.sqrt().item()

# %% wrong · however many there are
def global_norm(parameters, mesh, counted_elsewhere=()):
    skipped, squares = {id(p) for p in counted_elsewhere}, torch.zeros((), dtype=torch.float64)
    for p in parameters:
        if p.grad is not None and id(p) not in skipped:
            square = p.grad.double().pow(2).sum()
            squares += square if hasattr(p, "cut_dim") or mesh.sizes["tp"] == 1 else square / 2
    dist.all_reduce(squares, group=mesh["pp", "tp"])
    return squares.sqrt()

# %% wrong · the length
def global_norm(parameters, mesh, counted_elsewhere=()):
    skipped, squares = {id(p) for p in counted_elsewhere}, torch.zeros((), dtype=torch.float64)
    for p in parameters:
        counts = p.dim() > 1 or mesh.at["tp"] == 0
        if counts and p.grad is not None and id(p) not in skipped:
            squares += p.grad.double().pow(2).sum()
    dist.all_reduce(squares, group=mesh["pp", "tp"])
    return squares.sqrt()

# %% wrong · the length
# -     return squares.sqrt()
# +     return squares.sqrt() + 1e-6

# %% wrong · the length
# -         counts = hasattr(p, "cut_dim") or mesh.at["tp"] == 0
# +         counts = getattr(p, "cut_dim", 1) == 0 or mesh.at["tp"] == 0

# %% right · written out, with ceil
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    from math import ceil

    counts = [parameters] * 3
    counts[3 - stage:] = [ceil(parameters / n)] * stage
    p, g, o = (count * size for count, size in zip(counts, each))
    return {"optimizer_state": o, "gradients": g, "parameters": p}

# %% right · tensors
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    found = torch.tensor(each) * parameters
    shards = torch.tensor(each) * ((parameters + n - 1) // n)
    p, g, o = torch.where(torch.tensor([3, 2, 1]) <= stage, shards, found)
    return dict(parameters=p, gradients=g, optimizer_state=o)

# %% wrong · Padding makes the whole divisible by n
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    kinds = ("parameters", "gradients", "optimizer_state")
    first = (3, 2, 1)
    return {k: s * parameters / (n if stage >= f else 1) for k, s, f in zip(kinds, each, first)}

# %% wrong · these three keys, and no others
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    return sum(size * -(-parameters // n) for size in each)

# %% wrong · without `return`
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)

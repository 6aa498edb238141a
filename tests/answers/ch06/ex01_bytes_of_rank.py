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

# %% wrong · rounded down
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    kinds = ("parameters", "gradients", "optimizer_state")
    first = (3, 2, 1)
    return {k: s * (parameters // (n if stage >= f else 1)) for k, s, f in zip(kinds, each, first)}

# %% wrong · where n divides the parameters: then there is no padding
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = parameters // n + 1 if n > 1 else parameters
    p, g, o = (size * (part if stage >= f else parameters) for size, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · numbers have to be: a rank has whole numbers
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    from math import ceil
    p, g, o = (ceil(s * parameters / (n if stage >= f else 1)) for s, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · In stage 0 nothing is split, so nothing is padded
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (size * (part if stage >= f else part * n) for size, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · what is not split is not padded
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    whole = part * n if stage else parameters
    p, g, o = (size * (part if stage >= f else whole) for size, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · a stage too early
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (size * (part if stage >= f else parameters) for size, f in zip(each, (2, 1, 0)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · a stage too late
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (size * (part if stage > f else parameters) for size, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · the other way round
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (size * (part if stage >= f else parameters) for size, f in zip(each, (1, 2, 3)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · a stage splits what those before it split, too
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (size * (part if stage == f else parameters) for size, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · everything is split, whatever the stage
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    p, g, o = (size * -(-parameters // n) for size in each)
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · other bytes are possible than 2, 2 and 12
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (s * (part if stage >= f else parameters) for s, f in zip((2, 2, 12), (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · these are counts
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    p, g, o = (-(-parameters // n) if stage >= f else parameters for f in (3, 2, 1))
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · the bytes of all ranks together
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (n * s * (part if stage >= f else parameters) for s, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}

# %% wrong · these three keys, and no others
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    return sum(size * -(-parameters // n) for size in each)

# %% wrong · without `return`
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)

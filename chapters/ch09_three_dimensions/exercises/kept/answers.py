# %% right · a loop over choices
def kept(experts, n, capacity):
    counts, fits = [0] * n, torch.zeros_like(experts, dtype=torch.bool)
    for rank in range(experts.shape[1]):
        for token in range(len(experts)):
            expert = int(experts[token, rank])
            fits[token, rank] = counts[expert] < capacity
            counts[expert] += 1
    return fits

# %% right · expert by expert
def kept(experts, n, capacity):
    in_order = experts.T.reshape(-1)
    fits = torch.zeros(len(in_order), dtype=torch.bool)
    for expert in range(n):
        fits[(in_order == expert).nonzero().flatten()[:capacity]] = True
    return fits.reshape(experts.T.shape).T

# %% wrong · a token's choices come one after another
# -     in_order = F.one_hot(experts.T.flatten(), n)  # all first choices, then all second ones
# +     in_order = F.one_hot(experts.flatten(), n)
# -     return (place <= capacity).view(experts.T.shape).T
# +     return (place <= capacity).view(experts.shape)

# %% wrong · one too few
# -     return (place <= capacity).view(experts.T.shape).T
# +     return (place < capacity).view(experts.T.shape).T

# %% wrong · here it is for one that does not
# -     return (place <= capacity).view(experts.T.shape).T
# +     return (place > capacity).view(experts.T.shape).T

# %% wrong · and not none
def kept(experts, n, capacity):
    return (load_of(experts, n) <= capacity)[experts]

# %% wrong · share the room of an expert
def kept(experts, n, capacity):
    places = [F.one_hot(column, n) for column in experts.T]
    places = [(rows.cumsum(0) * rows).sum(-1) for rows in places]
    return torch.stack([place <= capacity for place in places], dim=1)

# %% wrong · may have one of its two experts
# -     return (place <= capacity).view(experts.T.shape).T
# +     fits = (place <= capacity).view(experts.T.shape).T
# +     return fits.all(-1, keepdim=True).expand_as(fits)

# %% wrong · a tensor of bool
def kept(experts, n, capacity):
    order = experts.T.flatten()
    room = torch.nn.functional.one_hot(order, n).cumsum(0).gather(1, order[:, None]).flatten()
    return (room <= capacity).view(experts.T.shape).T.long()

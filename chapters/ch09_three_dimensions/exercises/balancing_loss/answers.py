# %% right · with one-hot rows
def balancing_loss(scores, experts, group=None):
    n = scores.shape[-1]
    chosen = F.one_hot(experts, n).flatten(0, 1).sum(0).double()
    if group is not None:
        dist.all_reduce(chosen, group=group)
    probability = F.softmax(scores, dim=1).mean(0)
    return n * torch.dot(chosen / chosen.sum(), probability)

# %% right · expert by expert
def balancing_loss(scores, experts, group=None):
    n, p = scores.size(1), scores.softmax(1)
    loads = torch.stack([(experts == e).sum() for e in range(n)])
    if group is not None:
        dist.all_reduce(loads, group=group)
    return sum(n * loads[e] / loads.sum() * p[:, e].mean() for e in range(n))

# %% wrong · the loads, by an all-reduce
# -     if group is not None:
# -         dist.all_reduce(loads, group=group)
# +     pass

# %% wrong · the loads, by an all-reduce
# -     shares = (loads.double() / loads.sum()).to(scores)  # loads may exceed float16's numbers
# +     own = load_of(experts, n)
# +     shares = own.to(scores) / own.sum()

# %% wrong · the factor n is missing
# -     return n * (shares * scores.softmax(-1).mean(0)).sum()
# +     return (shares * scores.softmax(-1).mean(0)).sum()

# %% wrong · the mean over the experts
# -     return n * (shares * scores.softmax(-1).mean(0)).sum()
# +     return (shares * scores.softmax(-1).mean(0)).mean()

# %% wrong · these are loads, not shares
# -     shares = (loads.double() / loads.sum()).to(scores)  # loads may exceed float16's numbers
# +     shares = loads.to(scores)

# %% wrong · divide by the number of all choices
# -     shares = (loads.double() / loads.sum()).to(scores)  # loads may exceed float16's numbers
# +     ranks = 1 if group is None else dist.get_world_size(group)
# +     shares = loads.to(scores) / (len(scores) * ranks)

# %% wrong · divide them by the sum of these loads
# -     shares = (loads.double() / loads.sum()).to(scores)  # loads may exceed float16's numbers
# +     shares = loads.to(scores) / experts.numel()

# %% wrong · The second factor is the mean probability
# -     return n * (shares * scores.softmax(-1).mean(0)).sum()
# +     return n * (shares * shares).sum() + 0 * scores.sum()

# %% wrong · not their sum over the tokens
# -     return n * (shares * scores.softmax(-1).mean(0)).sum()
# +     return n * (shares * scores.softmax(-1).sum(0)).sum()

# %% wrong · probabilities are the softmax
# -     return n * (shares * scores.softmax(-1).mean(0)).sum()
# +     return n * (shares * scores.mean(0)).sum()

# %% wrong · Was the softmax detached
# -     return n * (shares * scores.softmax(-1).mean(0)).sum()
# +     return n * (shares * scores.detach().softmax(-1).mean(0)).sum()

# %% wrong · asked is a tensor with one number
# -     return n * (shares * scores.softmax(-1).mean(0)).sum()
# +     return n * shares * scores.softmax(-1).mean(0)

# %% wrong · gives None
# -     return n * (shares * scores.softmax(-1).mean(0)).sum()
# +     n * (shares * scores.softmax(-1).mean(0)).sum()

# %% wrong · without a group each rank counts its own choices
def balancing_loss(scores, experts, group=None):
    n = scores.shape[-1]
    loads = torch.bincount(experts.flatten(), minlength=n).double()
    dist.all_reduce(loads, group=group)
    return n * (loads / loads.sum() * scores.softmax(-1).mean(0)).sum()

# %% wrong · there may be a bias
def balancing_loss(scores, experts, group=None):
    n = scores.shape[-1]
    best = scores.topk(experts.shape[-1], dim=-1).indices
    loads = torch.bincount(best.flatten(), minlength=n).double()
    if group is not None:
        dist.all_reduce(loads, group=group)
    return n * (loads / loads.sum() * scores.softmax(-1).mean(0)).sum()

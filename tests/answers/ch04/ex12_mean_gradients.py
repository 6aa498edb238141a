# %% right · into one flat tensor
def mean_gradients(gradients_of, parameters, m, group=None):
    flat = torch.zeros(sum(p.numel() for p in parameters), dtype=parameters[0].dtype)
    for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
        flat += torch.cat([g.flatten() for g in gradients_of(k)]) / m
    dist.all_reduce(flat, group=group)
    parts = flat.split([p.numel() for p in parameters])
    return [part.view_as(p) for part, p in zip(parts, parameters)]

# %% right · a mean of means, with weights
def mean_gradients(gradients_of, parameters, m, group=None):
    mine = microbatches_of(dist.get_rank(group), dist.get_world_size(group), m)
    found = [gradients_of(k) for k in mine]
    means = [sum(of) / len(mine) for of in zip(*found)] or [p * 0.0 for p in parameters]
    weighted = [mean * (len(mine) / m) for mean in means]
    for one in weighted:
        dist.all_reduce(one, group=group)
    return weighted

# %% wrong · this is the sum over all micro-batches
# -     return [total / m for total in sums]
# +     return sums

# %% wrong · divided by the number of ranks
# -     return [total / m for total in sums]
# +     return [total / dist.get_world_size(group) for total in sums]

# %% wrong · these averages are averaged
def mean_gradients(gradients_of, parameters, m, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    mine = microbatches_of(rank, n, m)
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for k in mine:
        for total, gradient in zip(sums, gradients_of(k)):
            total += gradient / len(mine)
    for total in sums:
        dist.all_reduce(total, group=group)
    return [total / n for total in sums]

# %% wrong · divided by what this rank has computed
# -     return [total / m for total in sums]
# +     n = dist.get_world_size(group)
# +     mine = microbatches_of(dist.get_rank(group), n, m)
# +     return [total / (n * max(1, len(mine))) for total in sums]

# %% wrong · this rank's own micro-batches alone
# -     for total in sums:
# -         dist.all_reduce(total, group=group)
# +

# %% wrong · by the number of ranks as well
# -     return [total / m for total in sums]
# +     return [total / m / dist.get_world_size(group) for total in sums]

# %% wrong · a rank that has no micro-batch takes part all the same
# -     for total in sums:
# -         dist.all_reduce(total, group=group)
# +     if microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
# +         for total in sums:
# +             dist.all_reduce(total, group=group)

# %% wrong · has no gradient whose
def mean_gradients(gradients_of, parameters, m, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    found = [gradients_of(k) for k in microbatches_of(rank, n, m)]
    sums = [sum(of[i] for of in found) for i in range(len(found[0]))]
    for total in sums:
        dist.all_reduce(total, group=group)
    return [total / m for total in sums]

# %% wrong · each micro-batch is computed by one rank alone
def mean_gradients(gradients_of, parameters, m, group=None):
    found = [gradients_of(k) for k in range(m)]
    return [sum(of) / m for of in zip(*found)]

# %% wrong · add up in tensors of your own
# -     sums = [torch.zeros_like(parameter) for parameter in parameters]
# +     sums = [parameter.zero_() for parameter in parameters]

# %% wrong · float32 unless told otherwise
# -     sums = [torch.zeros_like(parameter) for parameter in parameters]
# +     sums = [torch.zeros(parameter.shape) for parameter in parameters]

# %% wrong · the sum is enough
def mean_gradients(gradients_of, parameters, m, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for k in microbatches_of(rank, n, m):
        for total, gradient in zip(sums, gradients_of(k)):
            total += gradient
    means = []
    for total in sums:
        of_all = [torch.zeros_like(total) for _ in range(n)]
        dist.all_gather(of_all, total, group)
        means.append(sum(of_all) / m)
    return means

# %% wrong · not for each
def mean_gradients(gradients_of, parameters, m, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    mine = microbatches_of(rank, n, m)
    for i in range(-(-m // n)):
        zeros = [torch.zeros_like(parameter) for parameter in parameters]
        here = gradients_of(mine[i]) if i < len(mine) else zeros
        for total, gradient in zip(sums, here):
            dist.all_reduce(gradient, group=group)
            total += gradient
    return [total / m for total in sums]

# %% wrong · the mean of this rank's own micro-batches
def mean_gradients(gradients_of, parameters, m, group=None):
    mine = microbatches_of(dist.get_rank(group), dist.get_world_size(group), m)
    return [sum(of) / len(mine) for of in zip(*[gradients_of(k) for k in mine])]

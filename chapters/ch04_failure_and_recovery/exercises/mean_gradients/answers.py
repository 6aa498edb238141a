# %% right · into a flat tensor for each dtype
def mean_gradients(gradients_of, parameters, m, group=None):
    flat = {p.dtype: [] for p in parameters}
    for p in parameters:
        flat[p.dtype].append(torch.zeros(p.numel(), dtype=p.dtype))
    flat = {dtype: torch.cat(zeros) for dtype, zeros in flat.items()}
    for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
        found = gradients_of(k)
        for dtype, total in flat.items():
            total += torch.cat([g.flatten() for g in found if g.dtype == dtype]) / m
    for total in flat.values():
        dist.all_reduce(total, group=group)
    parts = {dtype: iter(total.split([p.numel() for p in parameters if p.dtype == dtype]))
             for dtype, total in flat.items()}
    return [next(parts[p.dtype]).view_as(p) for p in parameters]

# %% right · all under way at once, and waited for in another order
def mean_gradients(gradients_of, parameters, m, group=None):
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
        sums = [total + gradient for total, gradient in zip(sums, gradients_of(k))]
    works = [dist.all_reduce(total, group=group, async_op=True) for total in sums]
    for total, work in reversed(list(zip(sums, works))):
        work.wait()
        total /= m
    return tuple(sums)

# %% right · into tensors that were there before, and a future of each all-reduce
KEPT = {}

def mean_gradients(gradients_of, parameters, m, group=None):
    for i, parameter in enumerate(parameters):
        if i not in KEPT or KEPT[i].shape != parameter.shape or KEPT[i].dtype != parameter.dtype:
            KEPT[i] = torch.empty_like(parameter)
        KEPT[i].zero_()
    sums = [KEPT[i] for i in range(len(parameters))]
    for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
        for total, gradient in zip(sums, gradients_of(k)):
            total += gradient
    for total in sums:
        total /= m
        dist.all_reduce(total, group=group, async_op=True).get_future().wait()
    return sums

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

# %% wrong · another dtype need another buffer
def mean_gradients(gradients_of, parameters, m, group=None):
    flat = torch.zeros(sum(p.numel() for p in parameters), dtype=parameters[0].dtype)
    for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
        flat += torch.cat([g.flatten() for g in gradients_of(k)]) / m
    dist.all_reduce(flat, group=group)
    parts = flat.split([p.numel() for p in parameters])
    return [part.view_as(p) for part, p in zip(parts, parameters)]

# %% wrong · another dtype need another buffer
def mean_gradients(gradients_of, parameters, m, group=None):
    flat = torch.zeros(sum(p.numel() for p in parameters), dtype=parameters[0].dtype)
    for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
        flat += torch.cat([g.flatten() for g in gradients_of(k)])
    dist.all_reduce(flat, group=group)
    parts = flat.split([p.numel() for p in parameters])
    return [part.view_as(p).to(p.dtype) / m for part, p in zip(parts, parameters)]

# %% wrong · nobody has waited for the request of all_reduce when div uses its tensor
# -         dist.all_reduce(total, group=group)
# +         dist.all_reduce(total, group=group, async_op=True)

# %% wrong · is in its tensor only after request.wait()
# -     for total in sums:
# -         dist.all_reduce(total, group=group)
# -     return [total / m for total in sums]
# +     works = [dist.all_reduce(total, group=group, async_op=True) for total in sums]
# +     means = [total / m for total in sums]
# +     for work in works:
# +         work.wait()
# +     return means

# %% wrong · each request has to be waited for
# -     for total in sums:
# -         dist.all_reduce(total, group=group)
# -     return [total / m for total in sums]
# +     for total in sums:
# +         total /= m
# +         work = dist.all_reduce(total, group=group, async_op=True)
# +     work.wait()
# +     return sums

# %% wrong · when copy_ uses its tensor
def mean_gradients(gradients_of, parameters, m, group=None):
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
        for total, gradient in zip(sums, gradients_of(k)):
            total += gradient
    row, works = torch.empty(max(total.numel() for total in sums), dtype=sums[0].dtype), []
    for total in sums:
        part = row[: total.numel()].view_as(total)
        part.copy_(total)
        works.append(dist.all_reduce(part, group=group, async_op=True))
        total.copy_(part)
    for work in works:
        work.wait()
    return [total / m for total in sums]

# %% wrong · lie in the same memory
def mean_gradients(gradients_of, parameters, m, group=None):
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
        for total, gradient in zip(sums, gradients_of(k)):
            total += gradient
    row, means = torch.empty(max(total.numel() for total in sums), dtype=sums[0].dtype), []
    for total in sums:
        part = row[: total.numel()].view_as(total)
        part.copy_(total / m)
        dist.all_reduce(part, group=group)
        means.append(part)
    return means

# %% wrong · parameters[0].grad is set now
# -     return [total / m for total in sums]
# +     for parameter, total in zip(parameters, sums):
# +         parameter.grad = total / m
# +     return [parameter.grad for parameter in parameters]

# %% wrong · parameters[0].requires_grad is set now
# -     return [total / m for total in sums]
# +     for parameter in parameters:
# +         parameter.requires_grad_()
# +     return [total / m for total in sums]

# %% wrong · has other tensors now `parameters` belong to the caller
# -     return [total / m for total in sums]
# +     for i, total in enumerate(sums):
# +         parameters[i] = total / m
# +     return parameters

# %% wrong · nobody has computed micro-batch 2 each rank computes all micro-batches
# -     for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
# +     for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m)[:1]:

# %% wrong · Keep what gradients_of has returned
# -     sums = [torch.zeros_like(parameter) for parameter in parameters]
# -     for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
# +     mine = microbatches_of(dist.get_rank(group), dist.get_world_size(group), m)
# +     first = gradients_of(mine[0]) if mine else parameters
# +     sums = [torch.zeros_like(gradient) for gradient in first]
# +     for k in mine:

# %% wrong · `parameters` have these shapes
# -     sums = [torch.zeros_like(parameter) for parameter in parameters]
# -     for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
# -         for total, gradient in zip(sums, gradients_of(k)):
# -             total += gradient
# +     mine = microbatches_of(dist.get_rank(group), dist.get_world_size(group), m)
# +     found = [gradients_of(k) for k in mine or [0]]
# +     sums = [sum(of) * bool(mine) for of in zip(*found)]

# %% wrong · `parameters` have these shapes
def mean_gradients(gradients_of, parameters, m, group=None):
    mine = microbatches_of(dist.get_rank(group), dist.get_world_size(group), m)
    found = [gradients_of(k) for k in mine]
    sums = [sum(of[i] for of in found) for i in range(len(parameters))]
    for total in sums:
        dist.all_reduce(total, group=group)
    return [total / m for total in sums]

# %% wrong · adds up again what is a sum over all ranks already
# -             total += gradient
# -     for total in sums:
# -         dist.all_reduce(total, group=group)
# +             total += gradient
# +             dist.all_reduce(total, group=group)

# %% wrong · here some ranks have more micro-batches than others
# -             total += gradient
# -     for total in sums:
# -         dist.all_reduce(total, group=group)
# +             dist.all_reduce(gradient, group=group)
# +             total += gradient

# %% wrong · hand `group` to every call
# -     for k in microbatches_of(dist.get_rank(group), dist.get_world_size(group), m):
# +     for k in microbatches_of(dist.get_rank(), dist.get_world_size(), m):

# %% wrong · it returned None a function without `return`
# -     return [total / m for total in sums]
# +     sums = [total / m for total in sums]

# %% wrong · it is None, or a request
# -     for total in sums:
# -         dist.all_reduce(total, group=group)
# -     return [total / m for total in sums]
# +     return [dist.all_reduce(total / m, group=group) for total in sums]

# %% wrong · it is None, or a request
# -     for total in sums:
# -         dist.all_reduce(total, group=group)
# -     return [total / m for total in sums]
# +     return [dist.all_reduce(total / m, group=group, async_op=True) for total in sums]

# %% wrong · it returned float64[18] asked is a list of tensors
# -     return [total / m for total in sums]
# +     return torch.cat([total.flatten() for total in sums]) / m

# %% wrong · expected float64[4, 3] each gradient has the shape of its parameter
# -     return [total / m for total in sums]
# +     return [total.flatten() / m for total in sums]

# %% wrong · In an all-reduce all ranks share the work
# -         dist.all_reduce(total, group=group)
# +         dist.reduce(total, group_dst=0, group=group)
# +         dist.broadcast(total, group_src=0, group=group)

# %% right · means of everything, and columns made orthonormal by hand
def power_round(gradient, error, q, group=None):
    n = dist.get_world_size(group)
    error += gradient
    p = error @ q / n
    dist.all_reduce(p, group=group)
    for j in range(p.shape[1]):
        for i in range(j):
            p[:, j] -= (p[:, i] @ p[:, j]) * p[:, i]
        p[:, j] /= p[:, j].norm()
    new = error.T @ p / n
    dist.all_reduce(new, group=group)
    q[...] = new
    result = p @ new.T
    error -= result
    return result

# %% right · AVG, and a basis of singular vectors
def power_round(gradient, error, q, group=None):
    whole = gradient.add(error)
    p = torch.mm(whole, q)
    dist.all_reduce(p, op=dist.ReduceOp.AVG, group=group)
    p, _, _ = torch.linalg.svd(p, full_matrices=False)
    torch.mm(whole.t(), p, out=q)
    dist.all_reduce(q, op=dist.ReduceOp.AVG, group=group)
    error.copy_(whole.addmm(p, q.t(), alpha=-1))
    return torch.einsum("mr,kr->mk", p, q)

# %% wrong · has no part in it
# -     whole = gradient + error
# +     whole = gradient.clone()

# %% wrong · is still what it was before the call
# -     error.copy_(whole - result)
# +     error = whole - result

# %% wrong · something may be left
# -     error.copy_(whole - result)
# +     error.copy_(gradient - result)

# %% wrong · takes its place, it is not added
# -     error.copy_(whole - result)
# +     error += whole - result

# %% wrong · Each rank keeps its own M
def power_round(gradient, error, q, group=None):
    n = dist.get_world_size(group)
    whole = gradient + error
    p = whole @ q
    dist.all_reduce(p, group=group)
    p = orthonormal(p)
    q.copy_(whole.T @ p)
    dist.all_reduce(q, group=group)
    q /= n
    result = p @ q.T
    mean = whole.clone()
    dist.all_reduce(mean, group=group)
    error.copy_(mean / n - result)
    return result

# %% wrong · so divide it by their number
# -     q /= n

# %% wrong · not by the world's
# -     n = dist.get_world_size(group)
# +     n = dist.get_world_size()

# %% wrong · P is this rank's own
# -     dist.all_reduce(p, group=group)

# %% wrong · Q is this rank's own
# -     dist.all_reduce(q, group=group)
# -     q /= n

# %% wrong · nothing of the other ranks is in it
def power_round(gradient, error, q, group=None):
    whole = gradient + error
    p = orthonormal(whole @ q)
    q.copy_(whole.T @ p)
    result = p @ q.T
    error.copy_(whole - result)
    return result

# %% wrong · the columns of P are not orthonormal
# -     p = orthonormal(p)  # of the sum as of the mean
# +     p /= n

# %% wrong · a mean of orthonormal columns is not orthonormal
# -     dist.all_reduce(p, group=group)
# -     p = orthonormal(p)  # of the sum as of the mean
# +     p = orthonormal(p)
# +     dist.all_reduce(p, group=group)
# +     p /= n

# %% wrong · but are not at right angles
# -     p = orthonormal(p)  # of the sum as of the mean
# +     p /= p.norm(dim=0)

# %% wrong · The next round begins with Q
# -     q.copy_(whole.T @ p)
# +     q = whole.T @ p

# %% wrong · take a new tensor for the sum
# -     whole = gradient + error
# +     whole = gradient.add_(error)

# %% wrong · the whole matrix travels
def power_round(gradient, error, q, group=None):
    n = dist.get_world_size(group)
    whole = gradient + error
    mean = whole / n
    dist.all_reduce(mean, group=group)
    p = orthonormal(mean @ q)
    q.copy_(mean.T @ p)
    result = p @ q.T
    error.copy_(whole - result)
    return result

# %% wrong · everybody gets everybody's P or Q
def power_round(gradient, error, q, group=None):
    n = dist.get_world_size(group)
    whole = gradient + error
    parts = [torch.empty(gradient.shape[0], q.shape[1], dtype=q.dtype) for _ in range(n)]
    dist.all_gather(parts, whole @ q, group=group)
    p = orthonormal(sum(parts))
    q.copy_(whole.T @ p)
    dist.all_reduce(q, group=group)
    q /= n
    result = p @ q.T
    error.copy_(whole - result)
    return result

# %% wrong · of shape (m, r)
# -     p = whole @ q
# +     p = whole.T @ q

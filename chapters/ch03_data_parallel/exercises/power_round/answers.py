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

# %% right · another basis, and the average by hand
def power_round(gradient, error, q, group=None):
    whole = gradient + error
    p = whole @ q
    dist.all_reduce(p, group=group)
    p = torch.linalg.svd(p / dist.get_world_size(group), full_matrices=False)[0]
    new = whole.mT @ p
    dist.all_reduce(new, group=group, async_op=True).wait()
    q[:] = new / dist.get_world_size(group)
    torch.sub(whole, p @ q.mT, out=error)
    return p @ q.mT

# %% wrong · have the dtype of `gradient`
# -     p = whole @ q
# +     p = torch.zeros(len(whole), q.shape[1], dtype=torch.float64)
# +     p += whole @ q

# %% wrong · is still what it was before the call
# -     error.copy_(whole - result)
# +     error.data = whole - result

# %% wrong · The next round begins with Q
# -     q.copy_(whole.T @ p)
# +     q.data = whole.T @ p

# %% wrong · nothing was returned
# -     return result
# +     return None if result.shape[0] == result.shape[1] else result

# %% wrong · in this order
# -     p = whole @ q
# +     p = whole @ q
# +     if p.numel() > 1000:
# +         return whole

# %% wrong · twice the bytes
def power_round(gradient, error, q, group=None):
    n, dtype = dist.get_world_size(group), gradient.dtype
    whole = gradient.double() + error
    p = whole @ q.double()
    dist.all_reduce(p, group=group)
    p = orthonormal(p)
    new = whole.T @ p
    dist.all_reduce(new, group=group)
    q.copy_(new / n)
    result = (p @ new.T / n).to(dtype)
    error.copy_(whole - result)
    return result

# %% wrong · is rank 0's alone
# -     dist.all_reduce(p, group=group)
# -     p = orthonormal(p)  # of the sum as of the mean
# +     p = orthonormal(p)
# +     dist.broadcast(p, group_src=0, group=group)

# %% wrong · of the shape of `gradient`
# -     return result
# +     return result.T

# %% wrong · have to travel from rank to rank
def power_round(gradient, error, q, group=None):
    import os
    import tempfile
    n, rank, at = dist.get_world_size(group), dist.get_rank(group), tempfile.gettempdir()
    whole = gradient + error

    def mean(mine, name):
        dist.barrier(group)
        torch.save(mine, os.path.join(at, f"{name}-{rank}"))
        dist.barrier(group)
        found = sum(torch.load(os.path.join(at, f"{name}-{k}")) for k in range(n)) / n
        dist.barrier(group)
        os.remove(os.path.join(at, f"{name}-{rank}"))
        return found

    p = orthonormal(mean(whole @ q, "p"))
    q.copy_(mean(whole.T @ p, "q"))
    error.copy_(whole - p @ q.T)
    return p @ q.T

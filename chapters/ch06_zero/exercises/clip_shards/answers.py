# %% right · one flat vector
def clip_shards(shards, max_norm, group=None):
    gradients = [p.grad for p in shards if p.grad is not None]
    flat = torch.cat([torch.zeros(1, dtype=torch.float64),
                      *(g.reshape(-1).double() for g in gradients)])
    total = flat @ flat
    dist.all_reduce(total, group=group)
    norm = total**0.5
    for g in gradients:
        g.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1.0))
    return norm

# %% right · Python numbers, and float32
def clip_shards(shards, max_norm, group=None):
    square = 0.0
    for p in shards:
        if p.grad is not None:
            square += p.grad.float().norm().item() ** 2
    total = torch.tensor([square])
    dist.all_reduce(total, group=group)
    norm = total.item() ** 0.5
    if norm <= max_norm:
        return norm
    for p in shards:
        if p.grad is not None:
            p.grad = p.grad * (max_norm / norm)
    return norm

# %% right · PyTorch's two halves
def clip_shards(shards, max_norm, group=None):
    wide = [p.grad.double() for p in shards if p.grad is not None]
    local = torch.nn.utils.get_total_norm(wide) if wide else torch.zeros(())
    total = local.double().square()
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    torch.nn.utils.clip_grads_with_norm_(shards, max_norm, norm)
    return norm.item()

# %% wrong · the norm of this rank's shards alone
def clip_shards(shards, max_norm, group=None):
    return torch.nn.utils.clip_grad_norm_(shards, max_norm).item()

# %% wrong · norms do not add up: squares do
# -     total = sum((norm.square() for norm in norms), torch.zeros((), dtype=torch.float64))
# +     total = sum((norm.square() for norm in norms), torch.zeros((), dtype=torch.float64)).sqrt()
# -     norm = total.sqrt().item()
# +     norm = total.item()

# %% wrong · norms of tensors do not add up
# -     total = sum((norm.square() for norm in norms), torch.zeros((), dtype=torch.float64))
# +     total = sum(norms, torch.zeros((), dtype=torch.float64))
# -     norm = total.sqrt().item()
# +     norm = total.item()

# %% wrong · this is a mean over the ranks
# -     norm = total.sqrt().item()
# +     norm = (total / dist.get_world_size(group)).sqrt().item()

# %% wrong · the largest norm of a rank
# -     dist.all_reduce(total, group=group)
# +     dist.all_reduce(total, dist.ReduceOp.MAX, group=group)

# %% wrong · the sum of the squares
# -     norm = total.sqrt().item()
# +     norm = total.item()

# %% wrong · a gradient that is small enough is scaled up
# -     if norm > max_norm:
# +     if norm:

# %% wrong · 0 / 0 is nan
# -     if norm > max_norm:
# +     if True:
# -                 p.grad *= max_norm / norm
# +                 p.grad *= min(1.0, max_norm / torch.tensor(norm)) if norm > max_norm else 0 / torch.tensor(norm) + 1

# %% wrong · each rank scales by its own norm
# -                 p.grad *= max_norm / norm
# +                 p.grad *= min(1.0, max_norm / max(1e-9, sum(float(x) ** 2 for x in norms) ** 0.5))

# %% wrong · each shard is scaled by its own norm
# -                 p.grad *= max_norm / norm
# +                 p.grad *= min(1.0, max_norm / p.grad.norm())

# %% wrong · each number is clamped by itself
# -                 p.grad *= max_norm / norm
# +                 p.grad.clamp_(-max_norm, max_norm)

# %% wrong · a frozen parameter has None
# -         for p in shards:
# -             if p.grad is not None:
# -                 p.grad *= max_norm / norm
# +         for p in shards:
# +             p.grad *= max_norm / norm

# %% wrong · also one without any gradient
# -     total = sum((norm.square() for norm in norms), torch.zeros((), dtype=torch.float64))
# +     if not norms:
# +         return 0.0
# +     total = sum((norm.square() for norm in norms), torch.zeros((), dtype=torch.float64))

# %% wrong · one all-reduce is enough
# -     total = sum((norm.square() for norm in norms), torch.zeros((), dtype=torch.float64))
# -     dist.all_reduce(total, group=group)
# +     most = torch.tensor(len(norms))
# +     dist.all_reduce(most, dist.ReduceOp.MAX, group=group)
# +     total = sum((norm.square() for norm in norms), torch.zeros((), dtype=torch.float64))
# +     dist.all_reduce(total, group=group)

# %% wrong · Square and add up in float32 or float64
# -     norms = [torch.linalg.vector_norm(p.grad, dtype=torch.float64)
# -              for p in shards if p.grad is not None]  # fmt: skip
# -     total = sum((norm.square() for norm in norms), torch.zeros((), dtype=torch.float64))
# +     norms = [p.grad.square().sum() for p in shards if p.grad is not None]
# +     total = sum(norms, torch.zeros((), dtype=torch.float64))

# %% wrong · hand `group` to every call
# -     dist.all_reduce(total, group=group)
# +     dist.all_reduce(total)

# %% wrong · return the norm before clipping
# -     return norm

# %% wrong · this is the norm after clipping
# -     return norm
# +     return min(norm, max_norm)

# %% wrong · the parameters themselves have changed
# -                 p.grad *= max_norm / norm
# +                 p.data *= max_norm / norm

# %% wrong · the norm of the parameters
# -     norms = [torch.linalg.vector_norm(p.grad, dtype=torch.float64)
# +     norms = [torch.linalg.vector_norm(p, dtype=torch.float64)

# %% wrong · multiply them in place
# -                 p.grad *= max_norm / norm
# +                 p.grad * max_norm / norm

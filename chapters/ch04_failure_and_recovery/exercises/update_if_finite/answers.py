# %% right · in one expression
def update_if_finite(flat, update, group=None):
    dist.all_reduce(flat, group=group)
    if not torch.isfinite(flat).all():
        return False
    update(flat)
    return True

# %% right · by the sum of absolute values
def update_if_finite(flat, update, group=None):
    work = dist.all_reduce(flat, group=group, async_op=True)
    work.wait()
    total = flat.double().abs().sum().item()
    is_finite = total == total and total != float("inf")
    if is_finite:
        update(flat)
    return is_finite

# %% wrong · each rank looks at its own gradients
# -     dist.all_reduce(flat, group=group)
# -     is_finite = flat.isfinite().all().item()
# +     is_finite = flat.isfinite().all().item()
# +     dist.all_reduce(flat, group=group)

# %% wrong · sum first, on all ranks
# -     dist.all_reduce(flat, group=group)
# -     is_finite = flat.isfinite().all().item()
# +     is_finite = flat.isfinite().all().item()
# +     if is_finite:
# +         dist.all_reduce(flat, group=group)

# %% wrong · a sum that is not the gradient
# -     is_finite = flat.isfinite().all().item()
# +     flat.nan_to_num_(0.0, 0.0, 0.0)
# +     is_finite = True

# %% wrong · a sum that is not the gradient
# -     dist.all_reduce(flat, group=group)
# +     flat.nan_to_num_(0.0, 0.0, 0.0)
# +     dist.all_reduce(flat, group=group)

# %% wrong · infinite is not finite
# -     is_finite = flat.isfinite().all().item()
# +     is_finite = not flat.isnan().any().item()

# %% wrong · all places of the sum have to be finite
# -     is_finite = flat.isfinite().all().item()
# +     is_finite = flat[0].isfinite().item()

# %% wrong · all places of the sum have to be finite
# -     is_finite = flat.isfinite().all().item()
# +     is_finite = flat.isfinite().any().item()

# %% wrong · infinite is not finite
# -     is_finite = flat.isfinite().all().item()
# +     is_finite = flat.max().isfinite().item()

# %% wrong · each number of this sum is finite
# -     is_finite = flat.isfinite().all().item()
# +     is_finite = flat.norm().isfinite().item()

# %% wrong · each number of this sum is finite
# -     is_finite = flat.isfinite().all().item()
# +     is_finite = (flat.abs() < 1e6).all().item()

# %% wrong · asked is True or False
# -     is_finite = flat.isfinite().all().item()
# +     is_finite = flat.isfinite().all()

# %% wrong · it is to be taken
# -     is_finite = flat.isfinite().all().item()
# +     is_finite = flat.float().isfinite().all().item()

# %% wrong · with async_op=True a collective returns at once
# -     dist.all_reduce(flat, group=group)
# +     dist.all_reduce(flat, group=group, async_op=True)

# %% wrong · a second collective in each step
# -     dist.all_reduce(flat, group=group)
# -     is_finite = flat.isfinite().all().item()
# +     dist.all_reduce(flat, group=group)
# +     sane = flat.isfinite().all().float()
# +     dist.all_reduce(sane, dist.ReduceOp.MIN, group)
# +     is_finite = sane.item() > 0

# %% wrong · a second collective in each step
# -     dist.all_reduce(flat, group=group)
# -     is_finite = flat.isfinite().all().item()
# +     sane = flat.isfinite().all().float()
# +     dist.all_reduce(sane, dist.ReduceOp.MIN, group)
# +     dist.all_reduce(flat, group=group)
# +     is_finite = sane.item() > 0

# %% wrong · and their sum is not
# -     dist.all_reduce(flat, group=group)
# -     is_finite = flat.isfinite().all().item()
# +     notice = 1.0 - flat.isfinite().all().float()
# +     both = torch.cat([flat, notice.view(1)])
# +     dist.all_reduce(both, group=group)
# +     flat.copy_(both[:-1])
# +     is_finite = both[-1].item() == 0

# %% wrong · this rank's own gradients, and not the sum
# -     dist.all_reduce(flat, group=group)
# -     is_finite = flat.isfinite().all().item()
# +     total = flat.clone()
# +     dist.all_reduce(total, group=group)
# +     is_finite = total.isfinite().all().item()

# %% wrong · this is the mean
# -     is_finite = flat.isfinite().all().item()
# +     is_finite = flat.isfinite().all().item()
# +     flat /= dist.get_world_size(group)

# %% wrong · False if it was left out
# -     return is_finite
# +     return True

# %% wrong · a function without `return`
# -     return is_finite

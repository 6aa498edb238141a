# %% right · step by step
def sum_and_judge(flat, norms, times=4.0, group=None):
    dist.all_reduce(flat, group=group)
    norm = float(torch.linalg.vector_norm(flat, dtype=torch.float64))
    if norm != norm or norm == float("inf"):
        return False
    if len(norms) >= AT_LEAST and norm > times * median(norms):
        return False
    norms.append(norm)
    return True

# %% right · with torch
def sum_and_judge(flat, norms, times=4.0, group=None):
    work = dist.all_reduce(flat, group=group, async_op=True)
    work.wait()
    norm = flat.double().square().sum().sqrt()
    sane = bool(norm.isfinite())
    if len(norms) >= 10:
        usual = torch.tensor(norms, dtype=torch.float64).quantile(0.5)
        sane = sane and bool(norm <= times * usual)
    norms += [norm.item()] * sane
    return sane

# %% right · in float32
# -     norm = flat.norm(dtype=torch.float64).item()
# +     norm = flat.norm(dtype=torch.promote_types(flat.dtype, torch.float32)).item()

# %% right · always in float32
# -     norm = flat.norm(dtype=torch.float64).item()
# +     norm = flat.float().norm().item()

# %% wrong · own gradient was judged
# -     dist.all_reduce(flat, group=group)
# -     norm = flat.norm(dtype=torch.float64).item()
# +     norm = flat.norm(dtype=torch.float64).item()
# +     dist.all_reduce(flat, group=group)

# %% wrong · each rank judges its own gradient
def sum_and_judge(flat, norms, times=4.0, group=None):
    mine = flat.norm().item()
    dist.all_reduce(flat, group=group)
    usual = median(norms) if len(norms) >= AT_LEAST else float("inf")
    is_sane = mine <= times * usual and mine < float("inf")
    if is_sane:
        norms.append(flat.norm().item())
    return is_sane

# %% wrong · a step with NaN counts as sane
# -     is_sane = norm <= limit and norm < float("inf")
# +     is_sane = not norm > limit

# %% wrong · take the median
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     limit = times * sum(norms) / len(norms) if len(norms) >= AT_LEAST else float("inf")

# %% wrong · a finite norm is enough
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     limit = times * median(norms) if norms else float("inf")

# %% wrong · a finite norm is enough
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     limit = times * median(norms)

# %% wrong · takes the lower of the two in the middle
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     limit = times * torch.tensor(norms).median().item() if len(norms) > 9 else float("inf")

# %% wrong · is still sane
# -     is_sane = norm <= limit and norm < float("inf")
# +     is_sane = norm < limit

# %% wrong · this takes 4 whatever it is
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     limit = 4.0 * median(norms) if len(norms) >= AT_LEAST else float("inf")

# %% wrong · every step counts as sane
# -     is_sane = norm <= limit and norm < float("inf")
# +     is_sane = len(norms) < AT_LEAST or norm <= limit

# %% wrong · was appended to norms, too
# -     if is_sane:
# -         norms.append(norm)
# +     norms.append(norm)

# %% wrong · already judged
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     limit = times * median(norms) if len(norms) > AT_LEAST else float("inf")

# %% wrong · take the median
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     limit = times * max(norms) if len(norms) >= AT_LEAST else float("inf")

# %% wrong · takes the upper of the two
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     limit = times * sorted(norms)[len(norms) // 2] if len(norms) >= AT_LEAST else float("inf")

# %% wrong · the middle of a sorted copy
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     limit = times * norms[len(norms) // 2] if len(norms) >= AT_LEAST else float("inf")

# %% wrong · the median of all earlier norms
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     limit = times * median(norms[-AT_LEAST:]) if len(norms) >= AT_LEAST else float("inf")

# %% wrong · the median of all earlier norms
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     limit = times * median([*norms, norm]) if len(norms) >= AT_LEAST else float("inf")

# %% wrong · norms itself was sorted
# -     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
# +     norms.sort()
# +     limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")

# %% wrong · the numbers of the sum are finite
# -     norm = flat.norm(dtype=torch.float64).item()
# +     norm = flat.float().norm().item()
# -     is_sane = norm <= limit and norm < float("inf")
# +     is_sane = norm <= limit and flat.isfinite().all().item()

# %% wrong · a list of floats
# -         norms.append(norm)
# +         norms.append(torch.tensor(norm))

# %% wrong · asked is True or False
# -     return is_sane
# +     return torch.tensor(is_sane)

# %% wrong · the norm is rounded
# -     norm = flat.norm(dtype=torch.float64).item()
# +     norm = round(flat.norm(dtype=torch.float64).item(), 3)

# %% wrong · the norm is rounded
# -     norm = flat.norm(dtype=torch.float64).item()
# +     norm = (flat.double() if flat.dtype == torch.float16 else flat).norm().item()

# %% wrong · this is not the norm of the sum
# -     norm = flat.norm(dtype=torch.float64).item()
# +     norm = flat.abs().max().item()

# %% wrong · not written into flat
def sum_and_judge(flat, norms, times=4.0, group=None):
    total = flat.clone()
    dist.all_reduce(total, group=group)
    norm = total.norm().item()
    limit = times * median(norms) if len(norms) >= AT_LEAST else float("inf")
    is_sane = norm <= limit and norm < float("inf")
    if is_sane:
        flat.copy_(total)
        norms.append(norm)
    return is_sane

# %% wrong · norms has not grown
# -     if is_sane:
# -         norms.append(norm)

# %% wrong · this is the mean
# -     dist.all_reduce(flat, group=group)
# +     dist.all_reduce(flat, group=group)
# +     flat /= dist.get_world_size(group)

# %% wrong · gives another tensor the name flat
# -     dist.all_reduce(flat, group=group)
# +     flat = flat.clone()
# +     dist.all_reduce(flat, group=group)

# %% wrong · nothing else has to be agreed on
# -     return is_sane
# +     agreed = torch.tensor([float(is_sane)])
# +     dist.all_reduce(agreed, dist.ReduceOp.MIN, group)
# +     return agreed.item() > 0

# %% wrong · All ranks have to sum first
# -     dist.all_reduce(flat, group=group)
# +     if not flat.isfinite().all():
# +         return False
# +     dist.all_reduce(flat, group=group)

# %% wrong · ends at 65,504
# -     norm = flat.norm(dtype=torch.float64).item()
# +     norm = flat.norm().item()

# %% wrong · a function without `return`
# -     return is_sane

# %% right · the mean of what was there stays a mean
def reduce_hybrid(unit, replicas):
    reduce_gradients(unit)
    dist.all_reduce(unit.shard.grad, group=replicas)
    unit.shard.grad /= dist.get_world_size(replicas)


# %% right · by hand
def reduce_hybrid(unit, replicas):
    flat = torch.cat(
        [
            torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten()
            for p in unit.parameters
        ]
    )
    flat = torch.cat([flat, flat.new_zeros(len(unit.flat) - len(flat))])
    chunks = list(flat.chunk(unit.n))
    from collectives import reduce_scatter_ring

    reduce_scatter_ring(chunks, unit.group)
    mine = chunks[unit.rank].clone()
    dist.all_reduce(mine, group=replicas)
    mine /= unit.n * dist.get_world_size(replicas)
    if unit.shard.grad is not None:
        mine += unit.shard.grad
    unit.shard.grad = mine
    for p in unit.parameters:
        p.grad = None


# %% wrong · the mean over the unit's own group
def reduce_hybrid(unit, replicas):
    reduce_gradients(unit)


# %% wrong · divide by the number of groups
def reduce_hybrid(unit, replicas):
    reduce_gradients(unit)
    dist.all_reduce(unit.shard.grad, group=replicas)


# %% wrong · divided once too often
def reduce_hybrid(unit, replicas):
    reduce_gradients(unit)
    dist.all_reduce(unit.shard.grad, group=replicas)
    unit.shard.grad /= unit.n * dist.get_world_size(replicas)


# %% wrong · where there is a gradient already, they add up
def reduce_hybrid(unit, replicas):
    unit.shard.grad = None
    reduce_gradients(unit)
    dist.all_reduce(unit.shard.grad, group=replicas)
    unit.shard.grad /= dist.get_world_size(replicas)


# %% wrong · not the whole gradient
def reduce_hybrid(unit, replicas):
    for p in unit.parameters:
        if p.grad is not None:
            dist.all_reduce(p.grad, group=replicas)
            p.grad /= dist.get_world_size(replicas)
    reduce_gradients(unit)


# %% wrong · added up over the replicas again
def reduce_hybrid(unit, replicas):
    before = unit.shard.grad
    reduce_gradients(unit)
    dist.all_reduce(unit.shard.grad, group=replicas)
    if before is None:
        unit.shard.grad /= dist.get_world_size(replicas)
    else:
        m = dist.get_world_size(replicas)
        unit.shard.grad = (unit.shard.grad - m * before) / m + m * before


# %% wrong · before the first reduce there is no gradient
def reduce_hybrid(unit, replicas):
    before = unit.shard.grad.clone()
    reduce_gradients(unit)
    dist.all_reduce(unit.shard.grad, group=replicas)


# %% wrong · divided by the number of all ranks of the world
def reduce_hybrid(unit, replicas):
    reduce_gradients(unit)
    unit.shard.grad *= unit.n
    dist.all_reduce(unit.shard.grad, group=replicas)
    unit.shard.grad /= dist.get_world_size()


# %% wrong · only its gradient is new
# -     if before is not None:
# -         unit.shard.grad += before
# +     if before is not None:
# +         unit.shard.grad += before
# +     shard = torch.nn.Parameter(unit.shard.detach().clone())
# +     shard.grad, unit.shard = unit.shard.grad, shard

# %% wrong · nobody has waited
# -     dist.all_reduce(unit.shard.grad, group=replicas)
# +     dist.all_reduce(unit.shard.grad, group=replicas, async_op=True)


# %% wrong · nobody has set it
def reduce_hybrid(unit, replicas):
    reduce_gradients(unit)
    unit.shard.grad = None

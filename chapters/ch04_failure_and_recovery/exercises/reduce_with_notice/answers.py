# %% right · a tensor with room for one more
def reduce_with_notice(flat, told, group=None):
    both = flat.new_empty(flat.numel() + 1)
    both[:-1], both[-1] = flat, 1.0 if told else 0.0
    dist.all_reduce(both, group=group)
    flat[:] = both[:-1]
    return bool(both[-1] >= 1)

# %% right · the notice first
def reduce_with_notice(flat, told, group=None):
    both = F.pad(flat, (1, 0), value=float(told))
    work = dist.all_reduce(both, group=group, async_op=True)
    work.wait()
    flat.copy_(both[1:])
    return both[0].item() != 0

# %% right · the operation by its name
# -     dist.all_reduce(both, group=group)
# +     dist.all_reduce(both, dist.ReduceOp.SUM, group)

# %% wrong · write the sum into it
# -     flat.copy_(both[:-1])
# +     flat = both[:-1]

# %% wrong · this rank's own notice
# -     return both[-1].item() > 0
# +     return told

# %% wrong · this rank's own notice
def reduce_with_notice(flat, told, group=None):
    dist.all_reduce(flat, group=group)
    return told

# %% wrong · whether all ranks, or most of them, have been told
# -     return both[-1].item() > 0
# +     return both[-1].item() == dist.get_world_size(group)

# %% wrong · it need not be the only one
# -     return both[-1].item() > 0
# +     return both[-1].item() == 1

# %% wrong · the notice travels separately
def reduce_with_notice(flat, told, group=None):
    dist.all_reduce(flat, group=group)
    notice = torch.tensor([float(told)])
    dist.all_reduce(notice, dist.ReduceOp.MAX, group)
    return notice.item() > 0

# %% wrong · all make the same calls
def reduce_with_notice(flat, told, group=None):
    dist.all_reduce(flat, group=group)
    if told:
        dist.broadcast(torch.ones(1), dist.get_rank(), group)
    return told

# %% wrong · this is the mean
# -     flat.copy_(both[:-1])
# +     flat.copy_(both[:-1] / dist.get_world_size(group))

# %% wrong · the largest of each element
# -     dist.all_reduce(both, group=group)
# +     dist.all_reduce(both, dist.ReduceOp.MAX, group)

# %% wrong · added to the gradients themselves
def reduce_with_notice(flat, told, group=None):
    before = flat.clone()
    flat += float(told)
    dist.all_reduce(flat, group=group)
    return bool((flat - before).abs().max() > 0)

# %% wrong · a function without `return`
# -     return both[-1].item() > 0

# %% wrong · has one, and a number in brackets
# -     both = torch.cat([flat, flat.new_tensor([float(told)])])
# +     both = torch.cat([flat, flat.new_tensor(float(told))])

# %% wrong · in the dtype of flat
# -     both = torch.cat([flat, flat.new_tensor([float(told)])])
# +     both = torch.cat([flat, [float(told)]])

# %% wrong · True or False itself
# -     return both[-1].item() > 0
# +     return both[-1] > 0

# %% wrong · True or False itself
# -     return both[-1].item() > 0
# +     return both[-1].item()

# %% wrong · all ranks, or most of them, have been told
# -     return both[-1].item() > 0
# +     return both[-1].item() / dist.get_world_size(group) >= 0.5

# %% wrong · has another dtype than flat
def reduce_with_notice(flat, told, group=None):
    both = torch.cat([flat.float(), torch.tensor([float(told)])])
    dist.all_reduce(both, group=group)
    flat.copy_(both[:-1])
    return both[-1].item() > 0

# %% wrong · has another dtype than flat
# -     both = torch.cat([flat, flat.new_tensor([float(told)])])
# +     both = torch.cat([flat, torch.tensor([float(told)])])

# %% wrong · one element more than flat has
# -     both = torch.cat([flat, flat.new_tensor([float(told)])])
# +     both = torch.cat([flat, flat.new_tensor([0.0, float(told)])])
# -     flat.copy_(both[:-1])
# +     flat.copy_(both[:-2])

# %% wrong · it is false although a rank has been told
# -     both = torch.cat([flat, flat.new_tensor([float(told)])])
# +     both = torch.cat([flat, told * flat.sum().view(1)])
# -     return both[-1].item() > 0
# +     return both[-1].item() != 0

# %% wrong · flat ends with the sum of the notices
# -     flat.copy_(both[:-1])
# +     flat.copy_(both[1:])

# %% wrong · flat begins with the sum of the notices
# -     both = torch.cat([flat, flat.new_tensor([float(told)])])
# +     both = torch.cat([flat.new_tensor([float(told)]), flat])
# -     return both[-1].item() > 0
# +     return both[0].item() > 0

# %% wrong · flat has to keep its length
def reduce_with_notice(flat, told, group=None):
    flat.resize_(len(flat) + 1)[-1] = float(told)
    dist.all_reduce(flat, group=group)
    return flat[-1].item() > 0

# %% wrong · put the notice into an additional element
def reduce_with_notice(flat, told, group=None):
    if told:
        flat *= float("nan")
    dist.all_reduce(flat, group=group)
    return bool(flat.isnan().any())

# %% wrong · gives the sum to one rank alone
# -     dist.all_reduce(both, group=group)
# +     dist.reduce(both, group_dst=0, group=group)

# %% wrong · asked is an all-reduce
# -     dist.all_reduce(both, group=group)
# +     parts = [torch.empty_like(both) for _ in range(dist.get_world_size(group))]
# +     dist.all_gather(parts, both, group=group)
# +     both = torch.stack(parts).sum(0)

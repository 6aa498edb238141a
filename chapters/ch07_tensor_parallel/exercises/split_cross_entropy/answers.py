# %% right · one number after another
# -     total, picked = AllReduce.apply(torch.stack([logits.exp().sum(-1), picked]), group)
# -     return (total.log() - picked).mean()
# +     total = AllReduce.apply(logits.exp().sum(-1), group)
# +     picked = AllReduce.apply(picked, group)
# +     return -(picked - torch.log(total)).mean()

# %% right · the highest goes back
# -     total, picked = AllReduce.apply(torch.stack([logits.exp().sum(-1), picked]), group)
# -     return (total.log() - picked).mean()
# +     total = AllReduce.apply(logits.logsumexp(-1).exp(), group).log() + highest
# +     picked = AllReduce.apply(picked + highest * mine, group)
# +     return (total - picked).sum() / targets.numel()

# %% right · in place, and softmax
# -     total, picked = AllReduce.apply(torch.stack([logits.exp().sum(-1), picked]), group)
# -     return (total.log() - picked).mean()
# +     sums = torch.stack([logits.exp().sum(-1), picked * mine])
# +     gone = summed(sums.detach(), group)
# +     total, picked = sums + (gone - sums.detach())
# +     return torch.mean(total.log() - picked)

# %% wrong · each rank has taken away its own highest logit
# -     dist.all_reduce(highest, dist.ReduceOp.MAX, group)

# %% wrong · exp of a large logit is inf
# -     logits = logits - highest.unsqueeze(-1)

# %% wrong · for each target, the highest logit of all tokens
# -     highest = logits.detach().amax(-1)
# +     highest = logits.detach().amax()

# %% wrong · autograd does not know dist.all_reduce
# -     total, picked = AllReduce.apply(torch.stack([logits.exp().sum(-1), picked]), group)
# +     total, picked = summed(torch.stack([logits.exp().sum(-1), picked]), group)

# %% wrong · the way back leads through the highest logit
# -     highest = logits.detach().amax(-1)
# +     highest = logits.max(-1).values

# %% wrong · no rank sees all that becomes of it
# -     highest = logits.detach().amax(-1)
# +     highest = logits.amax(-1)

# %% wrong · the logits of all tokens travel
def split_cross_entropy(logits: Tensor, targets: Tensor, group=None, vocabulary=CHARACTERS) -> Tensor:
    sizes = part_sizes(vocabulary, dist.get_world_size(group))
    first = sum(sizes[: dist.get_rank(group)])  # this rank's first token
    parts = [torch.empty(*logits.shape[:-1], size, dtype=logits.dtype) for size in sizes]
    parts[dist.get_rank(group)].copy_(logits.detach())
    all_gather_ring(parts, group)
    parts[dist.get_rank(group)] = logits
    everything = torch.cat(parts, -1).view(-1, vocabulary)
    return F.cross_entropy(everything, targets.flatten())

# %% wrong · the logits of all tokens need not travel
def split_cross_entropy(logits: Tensor, targets: Tensor, group=None, vocabulary=CHARACTERS) -> Tensor:
    sizes = part_sizes(vocabulary, dist.get_world_size(group))
    first = sum(sizes[: dist.get_rank(group)])  # this rank's first token
    parts = [torch.empty(*logits.shape[:-1], size, dtype=logits.dtype) for size in sizes]
    dist.all_gather(parts, logits.detach(), group)
    return F.cross_entropy(torch.cat(parts, -1).view(-1, vocabulary), targets.flatten())

# %% wrong · without item() or float()
# -     return (total.log() - picked).mean()
# +     return (total.log() - picked).mean().item()

# %% wrong · so their gradients are not to be added up
# -     highest = logits.detach().amax(-1)
# +     logits = enter(logits, group)
# +     highest = logits.detach().amax(-1)

# %% wrong · the mean over all targets is missing
# -     return (total.log() - picked).mean()
# +     return total.log() - picked

# %% wrong · the caller still needs it
# -     logits = logits - highest.unsqueeze(-1)
# +     logits -= highest.unsqueeze(-1)

# %% wrong · flatten or reshape copies where it has to
# -     place = targets - first
# +     logits, place = logits.view(-1, logits.shape[-1]), targets.view(-1) - first

# %% wrong · Pick any logit for those
# -     mine = (place >= 0) & (place < logits.shape[-1])
# -     picked = logits.gather(-1, place.where(mine, 0).unsqueeze(-1)).squeeze(-1).where(mine, 0)
# +     picked = logits.gather(-1, place.unsqueeze(-1)).squeeze(-1)

# %% wrong · first token is never picked
# -     mine = (place >= 0) & (place < logits.shape[-1])
# +     mine = (place > 0) & (place < logits.shape[-1])

# %% wrong · the losses of the ranks' own tokens are added up
# -     logits = logits - highest.unsqueeze(-1)
# +     logits = logits * 1
# -     total, picked = AllReduce.apply(torch.stack([logits.exp().sum(-1), picked]), group)
# -     return (total.log() - picked).mean()
# +     return AllReduce.apply((logits.logsumexp(-1) - picked).mean(), group)

# %% wrong · with async_op=True a collective returns at once
# -     dist.all_reduce(highest, dist.ReduceOp.MAX, group)
# +     dist.all_reduce(highest, dist.ReduceOp.MAX, group, async_op=True)

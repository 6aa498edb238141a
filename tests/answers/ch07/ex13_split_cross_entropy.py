# %% right · one number after another
# -     total, picked = AllReduce.apply(torch.stack([scores.exp().sum(-1), picked]), group)
# -     return (total.log() - picked).mean()
# +     total = AllReduce.apply(scores.exp().sum(-1), group)
# +     picked = AllReduce.apply(picked, group)
# +     return -(picked - torch.log(total)).mean()

# %% right · the highest goes back
# -     total, picked = AllReduce.apply(torch.stack([scores.exp().sum(-1), picked]), group)
# -     return (total.log() - picked).mean()
# +     total = AllReduce.apply(scores.logsumexp(-1).exp(), group).log() + highest
# +     picked = AllReduce.apply(picked + highest * mine, group)
# +     return (total - picked).sum() / targets.numel()

# %% right · in place, and softmax
# -     total, picked = AllReduce.apply(torch.stack([scores.exp().sum(-1), picked]), group)
# -     return (total.log() - picked).mean()
# +     sums = torch.stack([scores.exp().sum(-1), picked * mine])
# +     gone = summed(sums.detach(), group)
# +     total, picked = sums + (gone - sums.detach())
# +     return torch.mean(total.log() - picked)

# %% wrong · each rank has taken away its own highest score
# -     dist.all_reduce(highest, dist.ReduceOp.MAX, group)

# %% wrong · exp of a large score is inf
# -     scores = scores - highest.unsqueeze(-1)

# %% wrong · for each target, the highest score of all letters
# -     highest = scores.detach().amax(-1)
# +     highest = scores.detach().amax()

# %% wrong · autograd does not know dist.all_reduce
# -     total, picked = AllReduce.apply(torch.stack([scores.exp().sum(-1), picked]), group)
# +     total, picked = summed(torch.stack([scores.exp().sum(-1), picked]), group)

# %% wrong · the way back leads through the highest score
# -     highest = scores.detach().amax(-1)
# +     highest = scores.max(-1).values

# %% wrong · no rank sees all that becomes of it
# -     highest = scores.detach().amax(-1)
# +     highest = scores.amax(-1)

# %% wrong · the scores of all letters travel
def split_cross_entropy(scores: Tensor, targets: Tensor, group=None, letters=CHARACTERS) -> Tensor:
    sizes = part_sizes(letters, dist.get_world_size(group))
    first = sum(sizes[: dist.get_rank(group)])  # this rank's first letter
    parts = [torch.empty(*scores.shape[:-1], size, dtype=scores.dtype) for size in sizes]
    parts[dist.get_rank(group)].copy_(scores.detach())
    all_gather_ring(parts, group)
    parts[dist.get_rank(group)] = scores
    everything = torch.cat(parts, -1).view(-1, letters)
    return F.cross_entropy(everything, targets.flatten())

# %% wrong · the scores of all letters need not travel
def split_cross_entropy(scores: Tensor, targets: Tensor, group=None, letters=CHARACTERS) -> Tensor:
    sizes = part_sizes(letters, dist.get_world_size(group))
    first = sum(sizes[: dist.get_rank(group)])  # this rank's first letter
    parts = [torch.empty(*scores.shape[:-1], size, dtype=scores.dtype) for size in sizes]
    dist.all_gather(parts, scores.detach(), group)
    return F.cross_entropy(torch.cat(parts, -1).view(-1, letters), targets.flatten())

# %% wrong · without item() or float()
# -     return (total.log() - picked).mean()
# +     return (total.log() - picked).mean().item()

# %% wrong · so their gradients are not to be added up
# -     highest = scores.detach().amax(-1)
# +     scores = enter(scores, group)
# +     highest = scores.detach().amax(-1)

# %% wrong · the mean over all targets is missing
# -     return (total.log() - picked).mean()
# +     return total.log() - picked

# %% wrong · the caller still needs it
# -     scores = scores - highest.unsqueeze(-1)
# +     scores -= highest.unsqueeze(-1)

# %% wrong · flatten or reshape copies where it has to
# -     place = targets - first
# +     scores, place = scores.view(-1, scores.shape[-1]), targets.view(-1) - first

# %% wrong · Pick any score for those
# -     mine = (place >= 0) & (place < scores.shape[-1])
# -     picked = scores.gather(-1, place.where(mine, 0).unsqueeze(-1)).squeeze(-1).where(mine, 0)
# +     picked = scores.gather(-1, place.unsqueeze(-1)).squeeze(-1)

# %% wrong · first letter is never picked
# -     mine = (place >= 0) & (place < scores.shape[-1])
# +     mine = (place > 0) & (place < scores.shape[-1])

# %% wrong · the losses of the ranks' own letters are added up
# -     scores = scores - highest.unsqueeze(-1)
# +     scores = scores * 1
# -     total, picked = AllReduce.apply(torch.stack([scores.exp().sum(-1), picked]), group)
# -     return (total.log() - picked).mean()
# +     return AllReduce.apply((scores.logsumexp(-1) - picked).mean(), group)

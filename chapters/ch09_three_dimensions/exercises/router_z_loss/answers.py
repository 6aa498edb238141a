# %% right · exponentials by hand
def router_z_loss(scores, group=None):
    top = scores.detach().amax(-1, keepdim=True) if len(scores) else scores.detach()[:, :1]
    z = top.squeeze(-1) + (scores - top).exp().sum(-1).log()
    count, ranks = torch.tensor([float(len(scores))]), 1
    if group is not None:
        dist.all_reduce(count, group=group)
        ranks = dist.get_world_size(group)
    return ranks * (z * z).sum() / count.item()


# %% right · from the log-softmax
def router_z_loss(scores, group=None):
    z = (scores - F.log_softmax(scores, dim=-1))[:, 0]
    if group is None:
        return (z**2).mean()
    every = torch.tensor(z.numel())
    dist.all_reduce(every, group=group)
    return (z**2).sum() * dist.get_world_size(group) / every


# %% wrong · counts the tokens of a rank
# -     if group is None:
# -         return z.square().mean()
# -     tokens = torch.tensor(len(z), device=z.device)
# -     dist.all_reduce(tokens, group=group)
# -     wide = torch.promote_types(z.dtype, torch.float32)  # a sum may exceed float16's numbers
# -     total = z.square().sum(dtype=wide)
# -     return (total * (dist.get_world_size(group) / max(tokens.item(), 1))).to(z)
# +     return z.square().sum() / max(len(z), 1)

# %% wrong · Divide by the tokens of all ranks
# -     if group is None:
# -         return z.square().mean()
# -     tokens = torch.tensor(len(z), device=z.device)
# -     dist.all_reduce(tokens, group=group)
# -     wide = torch.promote_types(z.dtype, torch.float32)  # a sum may exceed float16's numbers
# -     total = z.square().sum(dtype=wide)
# -     return (total * (dist.get_world_size(group) / max(tokens.item(), 1))).to(z)
# +     return z.square().mean()

# %% wrong · divides by the number of ranks once more
# -     total = z.square().sum(dtype=wide)
# -     return (total * (dist.get_world_size(group) / max(tokens.item(), 1))).to(z)
# +     return z.square().sum() / tokens.item()

# %% wrong · an all-reduce of the loss is not part of it
# -     tokens = torch.tensor(len(z), device=z.device)
# -     dist.all_reduce(tokens, group=group)
# -     wide = torch.promote_types(z.dtype, torch.float32)  # a sum may exceed float16's numbers
# -     total = z.square().sum(dtype=wide)
# -     return (total * (dist.get_world_size(group) / max(tokens.item(), 1))).to(z)
# +     both = torch.stack([z.square().sum().detach(), torch.tensor(float(len(z)), dtype=z.dtype)])
# +     dist.all_reduce(both, group=group)
# +     return both[0] / both[1] + 0 * z.sum()

# %% wrong · the logarithm of 0 is -inf
# -     z = scores.logsumexp(-1)
# +     z = scores.exp().sum(-1).log()

# %% wrong · not of its square
# -         return z.square().mean()
# +         return z.mean()

# %% wrong · this is a sum over tokens
# -         return z.square().mean()
# +         return z.square().sum()

# %% wrong · these are squares of the scores
# -     z = scores.logsumexp(-1)
# +     z = scores.norm(dim=-1)

# %% wrong · as a mean over tokens and experts
# -         return z.square().mean()
# +         return scores.square().mean()

# %% wrong · it is the other way round
# -     z = scores.logsumexp(-1)
# +     z = scores.logsumexp(0)

# %% wrong · not of their mean
# -     z = scores.logsumexp(-1)
# +     z = scores.logsumexp(-1) - torch.tensor(float(scores.shape[-1])).log()

# %% wrong · not the largest one alone
# -     z = scores.logsumexp(-1)
# +     z = scores.amax(-1)

# %% wrong · the mean comes before the square
# -         return z.square().mean()
# +         return z.mean().square()

# %% wrong · stay in autograd's graph
# -     z = scores.logsumexp(-1)
# +     z = scores.detach().logsumexp(-1)


# %% wrong · nobody communicates
def router_z_loss(scores, group=None):
    z = scores.logsumexp(-1)
    tokens = torch.tensor(float(len(z)))
    dist.all_reduce(tokens, group=group)
    return z.square().sum() * dist.get_world_size(group) / tokens.item()


# %% wrong · the other ranks' parts have no gradient here
def router_z_loss(scores, group=None):
    squares = scores.logsumexp(-1).square()
    if group is None:
        return squares.mean()
    both = torch.tensor([squares.sum().item(), len(squares)], dtype=torch.float64)
    total = both.clone()
    dist.all_reduce(total, group=group)
    return (squares.sum() + total[0] - both[0]) / total[1]


# %% wrong · one all-reduce of one number is enough
# -     total = z.square().sum(dtype=wide)
# -     return (total * (dist.get_world_size(group) / max(tokens.item(), 1))).to(z)
# +     ranks = torch.tensor(1)
# +     dist.all_reduce(ranks, group=group)
# +     return z.square().sum() * (ranks.item() / tokens.item())

# %% wrong · how many tokens there are in all
# -     tokens = torch.tensor(len(z), device=z.device)
# +     tokens = torch.tensor([len(z), 1])
# -     total = z.square().sum(dtype=wide)
# -     return (total * (dist.get_world_size(group) / max(tokens.item(), 1))).to(z)
# +     return z.square().sum() * (tokens[1] / tokens[0])

# %% wrong · nobody needs each rank's count
# -     dist.all_reduce(tokens, group=group)
# -     wide = torch.promote_types(z.dtype, torch.float32)  # a sum may exceed float16's numbers
# -     total = z.square().sum(dtype=wide)
# -     return (total * (dist.get_world_size(group) / max(tokens.item(), 1))).to(z)
# +     counts = [torch.zeros_like(tokens) for _ in range(dist.get_world_size(group))]
# +     dist.all_gather(counts, tokens, group=group)
# +     return z.square().sum() * len(counts) / sum(counts)

# %% wrong · A count in 16 bits is not
# -     tokens = torch.tensor(len(z), device=z.device)
# +     tokens = torch.tensor(len(z), dtype=torch.bfloat16)

# %% wrong · A count in 16 bits is not
# -     total = z.square().sum(dtype=wide)
# -     return (total * (dist.get_world_size(group) / max(tokens.item(), 1))).to(z)
# +     return z.square().sum() * (dist.get_world_size(group) / (tokens.item() + 1e-3))

# %% wrong · do not convert them
# -     z = scores.logsumexp(-1)
# +     z = scores.float().logsumexp(-1)

# %% wrong · also those that are not in the group
# -     total = z.square().sum(dtype=wide)
# -     return (total * (dist.get_world_size(group) / max(tokens.item(), 1))).to(z)
# +     return z.square().sum() * (dist.get_world_size() / max(tokens.item(), 1))

# %% wrong · count only tokens that exist
# -     tokens = torch.tensor(len(z), device=z.device)
# +     tokens = torch.tensor(max(len(z), 1))

# %% wrong · divided by the number of scores
# -         return z.square().mean()
# +         return z.square().sum() / scores.numel()

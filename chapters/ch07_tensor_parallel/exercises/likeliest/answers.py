# %% right · the highest logit, then the first token that has it
def likeliest(logits, first, group=None):
    logit, place = logits.double().max(-1)
    highest = logit.clone()
    dist.all_reduce(highest, dist.ReduceOp.MAX, group)
    token = torch.where(logit == highest, first + place, 2**62)
    dist.all_reduce(token, dist.ReduceOp.MIN, group)
    return token

# %% right · logits and tokens by themselves
def likeliest(logits, first, group=None):
    n = dist.get_world_size(group)
    best, place = logits.max(dim=-1)
    every, tokens = best.new_empty(n, len(best)), place.new_empty(n, len(best))
    dist.all_gather(list(every), best, group=group)
    dist.all_gather(list(tokens), place + first, group=group)
    return tokens[every.argmax(0), torch.arange(len(best))]

# %% wrong · the token has been rounded
def likeliest(logits, first, group=None):
    logit, place = logits.max(-1)
    mine = torch.stack([logit, (first + place).to(logit.dtype)])
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(found, mine, group=group)
    logits, tokens = torch.stack(found, dim=1)
    return tokens.gather(0, logits.argmax(0, keepdim=True))[0].long()

# %% wrong · all have to learn which token it belongs to
def likeliest(logits, first, group=None):
    highest = logits.amax(-1)
    dist.all_reduce(highest, dist.ReduceOp.MAX, group)
    return first + (logits == highest.unsqueeze(-1)).int().argmax(-1)

# %% wrong · but all logits travel
def likeliest(logits, first, group=None):
    n, samples = dist.get_world_size(group), len(logits)
    lengths = [torch.tensor(0) for _ in range(n)]
    dist.all_gather(lengths, torch.tensor(logits.shape[-1]), group=group)
    most = max(lengths).item()
    padded = F.pad(logits, (0, most - logits.shape[-1]), value=-torch.inf)
    every = [torch.empty_like(padded) for _ in range(n)]
    dist.all_gather(every, padded, group=group)
    return torch.cat([x[:, :k] for x, k in zip(every, lengths)], dim=-1).argmax(-1)

# %% wrong · hand `group` to every call
def likeliest(logits, first, group=None):
    logit, place = logits.max(-1)
    mine = torch.stack([logit.double(), first + place.double()])
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(found, mine)
    logits, tokens = torch.stack(found, dim=1)
    return tokens.gather(0, logits.argmax(0, keepdim=True))[0].long()

# %% wrong · what travels has to be as long on all of them
def likeliest(logits, first, group=None):
    found = [torch.empty_like(logits) for _ in range(dist.get_world_size(group))]
    dist.all_gather(found, logits, group=group)
    return torch.cat(found, dim=-1).argmax(-1)

# %% wrong · with async_op=True a collective returns at once
# -     dist.all_gather(found, mine, group=group)
# +     dist.all_gather(found, mine, group=group, async_op=True)

# %% right · the highest score, then the first letter that has it
def likeliest(scores, first, group=None):
    score, place = scores.double().max(-1)
    highest = score.clone()
    dist.all_reduce(highest, dist.ReduceOp.MAX, group)
    letter = torch.where(score == highest, first + place, 2**62)
    dist.all_reduce(letter, dist.ReduceOp.MIN, group)
    return letter

# %% right · scores and letters by themselves
def likeliest(scores, first, group=None):
    n = dist.get_world_size(group)
    best, place = scores.max(dim=-1)
    every, letters = best.new_empty(n, len(best)), place.new_empty(n, len(best))
    dist.all_gather(list(every), best, group=group)
    dist.all_gather(list(letters), place + first, group=group)
    return letters[every.argmax(0), torch.arange(len(best))]

# %% wrong · the letter has been rounded
def likeliest(scores, first, group=None):
    score, place = scores.max(-1)
    mine = torch.stack([score, (first + place).to(score.dtype)])
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(found, mine, group=group)
    scores, letters = torch.stack(found, dim=1)
    return letters.gather(0, scores.argmax(0, keepdim=True))[0].long()

# %% wrong · all have to learn which letter it belongs to
def likeliest(scores, first, group=None):
    highest = scores.amax(-1)
    dist.all_reduce(highest, dist.ReduceOp.MAX, group)
    return first + (scores == highest.unsqueeze(-1)).int().argmax(-1)

# %% wrong · but all scores travel
def likeliest(scores, first, group=None):
    n, samples = dist.get_world_size(group), len(scores)
    lengths = [torch.tensor(0) for _ in range(n)]
    dist.all_gather(lengths, torch.tensor(scores.shape[-1]), group=group)
    most = max(lengths).item()
    padded = F.pad(scores, (0, most - scores.shape[-1]), value=-torch.inf)
    every = [torch.empty_like(padded) for _ in range(n)]
    dist.all_gather(every, padded, group=group)
    return torch.cat([x[:, :k] for x, k in zip(every, lengths)], dim=-1).argmax(-1)

# %% wrong · hand `group` to every call
def likeliest(scores, first, group=None):
    score, place = scores.max(-1)
    mine = torch.stack([score.double(), first + place.double()])
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(found, mine)
    scores, letters = torch.stack(found, dim=1)
    return letters.gather(0, scores.argmax(0, keepdim=True))[0].long()

# %% wrong · what travels has to be as long on all of them
def likeliest(scores, first, group=None):
    found = [torch.empty_like(scores) for _ in range(dist.get_world_size(group))]
    dist.all_gather(found, scores, group=group)
    return torch.cat(found, dim=-1).argmax(-1)

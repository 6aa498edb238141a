# %% right · relative to the highest of all stages
def merge_parts(statistics, vectors):
    highest, sums, picked = statistics[:, 0], statistics[:, 1], statistics[:, 2]
    top = highest.max(dim=0).values
    scale = torch.exp(highest - top)
    total = (scale * sums).sum(dim=0)
    log_sums = top + torch.log(total)
    rows = torch.einsum("st,stw->tw", scale / total, vectors)
    return log_sums - picked.sum(dim=0), log_sums, rows

# %% right · stage by stage
def merge_parts(statistics, vectors):
    log_sums = torch.full_like(statistics[0, 0], -float("inf"))
    rows, picked = torch.zeros_like(vectors[0]), torch.zeros_like(log_sums)
    for (highest, total, one), vector in zip(statistics, vectors):
        new = torch.logaddexp(log_sums, highest + total.log())
        rows = rows * (log_sums - new).exp()[:, None] + vector * (highest - new).exp()[:, None]
        log_sums, picked = new, picked + one
    return [log_sums - picked, log_sums, rows]

# %% wrong · these sums are in different units
def merge_parts(statistics, vectors):
    highest, sums, picked = statistics.unbind(1)
    total = sums.sum(0)
    log_sums = highest.amax(0) + total.log()
    return log_sums - picked.sum(0), log_sums, vectors.sum(0) / total.unsqueeze(-1)

# %% wrong · logarithms are added up
# -     log_sums = (highest + sums.log()).logsumexp(0)
# -     shares = (highest - log_sums).exp()
# +     right = (highest + sums.log()).logsumexp(0)
# +     shares = (highest - right).exp()
# +     log_sums = (highest + sums.log()).sum(0)

# %% wrong · Those without the target gave 0
# -     return log_sums - picked.sum(0), log_sums, mean_rows
# +     return log_sums - picked.amax(0), log_sums, mean_rows

# %% wrong · it has to be added to the logarithm of the sum again
def merge_parts(statistics, vectors):
    highest, sums, picked = statistics.unbind(1)
    top = highest.amax(0)
    scale = (highest - top).exp()
    total = (scale * sums).sum(0)
    rows = (vectors * (scale / total).unsqueeze(-1)).sum(0)
    return total.log() - picked.sum(0), total.log(), rows

# %% wrong · a probability is exp divided by that sum
# -     shares = (highest - log_sums).exp()
# +     shares = (highest - highest.amax(0)).exp()

# %% wrong · before they are added
# -     mean_rows = (vectors * shares.unsqueeze(-1)).sum(0)
# +     mean_rows = vectors.sum(0) / (log_sums - highest.amax(0)).exp().unsqueeze(-1)

# %% wrong · A stage with larger logits counts for more
# -     mean_rows = (vectors * shares.unsqueeze(-1)).sum(0)
# +     mean_rows = (vectors / sums.unsqueeze(-1)).mean(0)

# %% wrong · one loss for each of them
# -     return log_sums - picked.sum(0), log_sums, mean_rows
# +     return (log_sums - picked.sum(0)).mean(), log_sums, mean_rows

# %% wrong · inf / inf is no number
def merge_parts(statistics, vectors):
    highest, sums, picked = statistics.unbind(1)
    total = (sums * highest.exp()).sum(0)
    rows = (vectors * highest.exp().unsqueeze(-1)).sum(0) / total.unsqueeze(-1)
    return total.log() - picked.sum(0), total.log(), rows

# %% wrong · give the numbers a last dimension
# -     mean_rows = (vectors * shares.unsqueeze(-1)).sum(0)
# +     mean_rows = (vectors * shares).sum(0)

# %% right · float64 inside
def merge_parts(statistics, vectors):
    dtype, statistics, vectors = vectors.dtype, statistics.double(), vectors.double()
    each = statistics[:, 0] + statistics[:, 1].log()
    log_sums = torch.logsumexp(each, dim=0)
    rows = ((each.softmax(0) / statistics[:, 1]).T[:, None] @ vectors.transpose(0, 1))[:, 0]
    return [x.to(dtype) for x in (log_sums - statistics[:, 2].sum(0), log_sums, rows)]

# %% right · target by target
def merge_parts(statistics, vectors):
    losses, logs, rows = [], [], []
    for (m, s, t), v in zip(statistics.permute(2, 1, 0), vectors.transpose(0, 1)):
        f = torch.exp(m - m.max())
        logs.append(m.max() + torch.log(f @ s))
        losses.append(logs[-1] - t.sum())
        rows.append(f @ v / (f @ s))
    return torch.stack(losses), torch.stack(logs), torch.stack(rows)

# %% wrong · is not the highest logit of all stages
def merge_parts(statistics, vectors):
    highest, sums, picked = statistics.unbind(1)
    scale = (highest - highest[0]).exp()
    log_sums = highest[0] + (scale * sums).sum(0).log()
    rows = (vectors * scale.unsqueeze(-1)).sum(0) / (scale * sums).sum(0).unsqueeze(-1)
    return log_sums - picked.sum(0), log_sums, rows

# %% wrong · is not the highest logit of all stages
def merge_parts(statistics, vectors):
    highest, sums, picked = statistics.unbind(1)
    top = highest.mean(0)
    scale = (highest - top).exp()
    total = (scale * sums).sum(0)
    rows = (vectors * (scale / total).unsqueeze(-1)).sum(0)
    return top + total.log() - picked.sum(0), top + total.log(), rows

# %% wrong · one number is subtracted for all targets
def merge_parts(statistics, vectors):
    highest, sums, picked = statistics.unbind(1)
    top = highest.max()
    scale = (highest - top).exp()
    total = (scale * sums).sum(0)
    rows = (vectors * (scale / total).unsqueeze(-1)).sum(0)
    return top + total.log() - picked.sum(0), top + total.log(), rows

# %% wrong · of logits and sums together
def merge_parts(statistics, vectors):
    highest, sums, picked = statistics.unbind(1)
    top = statistics.amax((0, 1))
    scale = (highest - top).exp()
    total = (scale * sums).sum(0)
    rows = (vectors * (scale / total).unsqueeze(-1)).sum(0)
    return top + total.log() - picked.sum(0), top + total.log(), rows

# %% wrong · the target's probability is rounded to 0
def merge_parts(statistics, vectors):
    highest, sums, picked = statistics.unbind(1)
    top = highest.amax(0)
    scale = (highest - top).exp()
    total = (scale * sums).sum(0)
    rows = (vectors * (scale / total).unsqueeze(-1)).sum(0)
    return -((picked.sum(0) - top).exp() / total).log(), top + total.log(), rows

# %% wrong · right to a few digits
def merge_parts(statistics, vectors):
    highest, sums, picked = statistics.float().unbind(1)
    log_sums = (highest + sums.log()).logsumexp(0)
    shares = (highest - log_sums).exp()
    rows = (vectors.float() * shares.unsqueeze(-1)).sum(0)
    return (log_sums - picked.sum(0)).double(), log_sums.double(), rows.double()

# %% wrong · right to a few digits
# -     log_sums = (highest + sums.log()).logsumexp(0)
# +     top = highest.amax(0)
# +     log_sums = top + ((sums * (highest - top).exp()).sum(0) + 1e-6).log()

# %% wrong · the results have the dtype of the parts
# -     return log_sums - picked.sum(0), log_sums, mean_rows
# +     return (log_sums - picked.sum(0)).double(), log_sums.double(), mean_rows.double()

# %% wrong · the loss has the wrong sign
# -     return log_sums - picked.sum(0), log_sums, mean_rows
# +     return picked.sum(0) - log_sums, log_sums, mean_rows

# %% wrong · this counts the target's logit twice
# -     return log_sums - picked.sum(0), log_sums, mean_rows
# +     return log_sums - picked.amax(0) - picked.amin(0), log_sums, mean_rows

# %% wrong · one of the stages has it
# -     return log_sums - picked.sum(0), log_sums, mean_rows
# +     return log_sums - picked[0], log_sums, mean_rows

# %% wrong · a stage with more tokens has a larger sum
# -     mean_rows = (vectors * shares.unsqueeze(-1)).sum(0)
# +     weights = highest.softmax(0) / sums
# +     mean_rows = (vectors * weights.unsqueeze(-1)).sum(0)

# %% wrong · only the sums of the first and the last stage are added
# -     log_sums = (highest + sums.log()).logsumexp(0)
# +     log_sums = torch.logaddexp(*(highest + sums.log())[[0, -1]])

# %% wrong · they have to be added up
# -     log_sums = (highest + sums.log()).logsumexp(0)
# +     log_sums = (highest + (sums / len(sums)).log()).logsumexp(0)

# %% wrong · what exp takes is clamped
def merge_parts(statistics, vectors):
    highest, sums, picked = statistics.unbind(1)
    exp = highest.clamp(max=80).exp()
    total = (exp * sums).sum(0)
    rows = (exp[..., None] * vectors).sum(0) / total[:, None]
    return total.log() - picked.sum(0), total.log(), rows

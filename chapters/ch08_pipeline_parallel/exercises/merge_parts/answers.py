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

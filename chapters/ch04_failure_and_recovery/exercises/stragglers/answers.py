# %% right · with torch
def stragglers(seconds, times=1.5):
    usual = torch.tensor(seconds, dtype=torch.float64).quantile(0.5, dim=0)
    return (usual > times * usual.quantile(0.5)).nonzero().flatten().tolist()

# %% right · rank by rank
def stragglers(seconds, times=1.5):
    medians = {}
    for rank in range(len(seconds[0])):
        medians[rank] = median(step[rank] for step in seconds)
    limit = times * median(medians.values())
    return [rank for rank in medians if medians[rank] > limit]

# %% wrong · without `return`
def stragglers(seconds, times=1.5):
    [rank for rank in range(len(seconds[0]))]

# %% wrong · return a list of ranks
def stragglers(seconds, times=1.5):
    return 2

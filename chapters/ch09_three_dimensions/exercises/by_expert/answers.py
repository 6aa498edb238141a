# %% right · a loop
def by_expert(counts):
    ranks, n = counts.shape
    first = torch.cat([torch.zeros(1, dtype=torch.long), counts.flatten().cumsum(0)])
    rows = []
    for expert in range(n):
        for rank in range(ranks):
            start, count = int(first[rank * n + expert]), int(counts[rank, expert])
            rows += range(start, start + count)
    return torch.tensor(rows, dtype=torch.long)

# %% right · with nonzero
def by_expert(counts):
    ranks, n = counts.shape
    experts = torch.cat([torch.full((int(c),), e) for row in counts for e, c in enumerate(row)])
    return torch.cat([(experts == e).nonzero().flatten() for e in range(n)])

# %% wrong · rank after rank
def by_expert(counts):
    return torch.arange(counts.sum())

# %% wrong · where each row goes
# -     return expert_of_row.argsort(stable=True)
# +     return expert_of_row.argsort(stable=True).argsort()

# %% wrong · argsort gives them
# -     return expert_of_row.argsort(stable=True)
# +     return expert_of_row

# %% wrong · argsort gives them
# -     return expert_of_row.argsort(stable=True)
# +     return expert_of_row.sort(stable=True).values

# %% wrong · in the order in which they came
# -     return expert_of_row.argsort(stable=True)
# +     n = len(expert_of_row)
# +     return n - 1 - expert_of_row.flip(0).argsort(stable=True)

# %% wrong · where each row goes
def by_expert(counts):
    rows = torch.arange(counts.shape[0]).repeat(counts.shape[1])
    return rows.repeat_interleave(counts.T.flatten()).argsort(stable=True)

# %% wrong · of float32
def by_expert(counts):
    rows = [k for k in range(int(counts.sum()))]
    experts = [e for of in counts.tolist() for e, c in enumerate(of) for _ in range(c)]
    return torch.tensor(sorted(rows, key=lambda k: experts[k]))

# %% wrong · stable=True
def by_expert(counts):
    experts = torch.arange(counts.shape[1]).repeat(len(counts))
    experts = experts.repeat_interleave(counts.flatten())
    return (experts * 1000 - torch.arange(len(experts))).argsort()

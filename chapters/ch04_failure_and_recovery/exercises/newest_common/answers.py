# %% right · owners of each step
def newest_common(held):
    owners = {}
    for of_rank in held:
        for owner, step in of_rank:
            owners.setdefault(step, set()).add(owner)
    return max((s for s, found in owners.items() if len(found) == len(held)), default=None)

# %% right · steps of each owner, in common
def newest_common(held):
    there = sum(held, [])
    steps = [{step for o, step in there if o == owner} for owner in range(len(held))]
    common = set.intersection(*steps)
    return sorted(common)[-1] if common else None

# %% right · from the newest one down
def newest_common(held):
    n, there = len(held), set().union(*held)
    for step in sorted({step for _, step in there}, reverse=True):
        if all((owner, step) in there for owner in range(n)):
            return step

# %% wrong · the result is None, and no number
# -     return max(whole, default=None)
# +     return max(whole, default=0)

# %% wrong · the result is None, and no number
def newest_common(held):
    best, there = -1, set().union(*held)
    for _, step in there:
        if all((owner, step) in there for owner in range(len(held))):
            best = max(best, step)
    return best

# %% wrong · default=None
# -     return max(whole, default=None)
# +     return max(whole)

# %% wrong · a newcomer holds nothing
def newest_common(held):
    common = set.intersection(*({step for _, step in of_rank} for of_rank in held))
    return max(common, default=None)

# %% wrong · there are len(held) of them
# -     n = len(held)
# +     n = sum(bool(of_rank) for of_rank in held)

# %% wrong · take 0 for nothing
# -     return max(whole, default=None)
# +     return max(whole, default=None) or None

# %% wrong · a function without `return`
# -     return max(whole, default=None)
# +     max(whole, default=None)

# %% wrong · expected 9, got [9]
# -     return max(whole, default=None)
# +     return [max(whole, default=None)]

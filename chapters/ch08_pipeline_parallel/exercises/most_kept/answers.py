# %% right · a set of what is kept
def most_kept(row):
    kept, most = set(), 0
    for kind, i, chunk in row:
        if kind == "F":
            kept.add((i, chunk))
        elif kind != "I":
            kept.remove((i, chunk))
        most = max(most, len(kept))
    return most

# %% right · accumulated
def most_kept(row):
    from itertools import accumulate
    steps = {"F": 1, "B": -1, "I": 0, "W": -1}
    return max(accumulate(steps[a.kind] for a in row), default=0)

# %% wrong · by both halves of its backward
# -         kept += (action.kind == "F") - (action.kind in "BW")
# +         kept += 1 if action.kind == "F" else -1

# %% wrong · most right after a forward
def most_kept(row):
    kept = most = 0
    for action in row:
        if action.kind == "F":
            kept += 1
        elif action.kind != "I":
            kept -= 1
            most = max(most, kept)
    return most

# %% wrong · max() of nothing needs default=0
def most_kept(row):
    counts = [0]
    for action in row:
        counts.append(counts[-1] + (action.kind == "F") - (action.kind in "BW"))
    return max(counts[1:])

# %% wrong · and leave it as it is
# -     for action in row:
# +     while row:
# +         action = row.pop(0)

# %% wrong · a function without `return`
# -     return most

# %% wrong · what an earlier call has left is still in it
def most_kept(row, kept=[0]):  # noqa: B006
    most = 0
    for action in row:
        kept[0] += (action.kind == "F") - (action.kind in "BW")
        most = max(most, kept[0])
    return most

# %% wrong · it gives the same for all arguments
def most_kept(row):
    return 2

# %% wrong · asked is one number
# -     return most
# +     return [most]

# %% right · the solution
def most_kept(row):
    kept = most = 0
    for action in row:
        kept += (action.kind == "F") - (action.kind in "BW")
        most = max(most, kept)
    return most

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

# %% wrong · these are the forwards in all
def most_kept(row):
    return sum(action.kind == "F" for action in row)

# %% wrong · what is kept at the end
def most_kept(row):
    kept = 0
    for action in row:
        kept += (action.kind == "F") - (action.kind in "BW")
    return kept

# %% wrong · with the first half of the backward
# -         kept += (action.kind == "F") - (action.kind in "BW")
# +         kept += 1 if action.kind == "F" else -1 if action.kind in "BI" else 0

# %% wrong · by both halves of its backward
# -         kept += (action.kind == "F") - (action.kind in "BW")
# +         kept += 1 if action.kind == "F" else -1

# %% wrong · W frees what is kept, just as B does
# -         kept += (action.kind == "F") - (action.kind in "BW")
# +         kept += {"F": 1, "B": -1}.get(action.kind, 0)

# %% wrong · before the first backward
def most_kept(row):
    most = 0
    for action in row:
        if action.kind != "F":
            break
        most += 1
    return most

# %% wrong · this is the longest run of forwards
def most_kept(row):
    run = most = 0
    for action in row:
        run = run + 1 if action.kind == "F" else 0
        most = max(most, run)
    return most

# %% wrong · a rank keeps one on each chunk
def most_kept(row):
    kept, most = set(), 0
    for kind, i, chunk in row:
        if kind == "F":
            kept.add(i)
        elif kind in "BW":
            kept.discard(i)
        most = max(most, len(kept))
    return most

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

# %% wrong · go through it, and leave it as it is
# -     for action in row:
# +     while row:
# +         action = row.pop(0)

# %% wrong · the highest number of a micro-batch
def most_kept(row):
    return max((action.microbatch for action in row), default=0)

# %% wrong · a function without `return`
# -     return most

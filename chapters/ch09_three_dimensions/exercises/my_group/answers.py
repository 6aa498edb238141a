# %% right · a loop, and groups in a dict
def my_group(groups):
    made = {tuple(ranks): dist.new_group(ranks) for ranks in groups}
    return next(group for ranks, group in made.items() if dist.get_rank() in ranks)

# %% right · from the end, on all ranks
def my_group(groups):
    for ranks in groups[::-1]:
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            mine = group
    return mine

# %% wrong · whatever is in the lists
def my_group(groups):
    in_turn = groups if dist.get_rank() % 2 == 0 else groups[::-1]
    for ranks in in_turn:
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            mine = group
    return mine

# %% wrong · also those that they are not in
def my_group(groups):
    for ranks in groups:
        if dist.get_rank() in ranks:
            return dist.new_group(ranks)

# %% wrong · whatever is in the lists
def my_group(groups):
    mine = next(ranks for ranks in groups if dist.get_rank() in ranks)
    group = dist.new_group(mine)
    for ranks in groups:
        if ranks != mine:
            dist.new_group(ranks)
    return group

# %% wrong · it returns what dist.new_group(ranks) gave
def my_group(groups):
    for ranks in groups:
        group = dist.new_group(ranks)
    return group

# %% wrong · it returns what dist.new_group(ranks) gave
def my_group(groups):
    for ranks in groups:
        dist.new_group(ranks)
    return next(ranks for ranks in groups if dist.get_rank() in ranks)

# %% wrong · without `return`
def my_group(groups):
    for ranks in groups:
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            mine = group

# %% wrong · each list is needed once
def my_group(groups):
    for ranks in groups + groups:
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            mine = group
    return mine

# %% wrong · it returns what dist.new_group(ranks) gave
def my_group(groups):
    for ranks in groups:
        dist.new_group(ranks)
    return dist.group.WORLD

# %% wrong · it belongs to the caller
def my_group(groups):
    mine = None
    while groups:
        ranks = groups.pop(0)
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            mine = group
    return mine

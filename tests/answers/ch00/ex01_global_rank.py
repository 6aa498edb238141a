# %% right · product
def global_rank(node, local_rank, per_node):
    return node * per_node + local_rank

# %% right · a range
def global_rank(node, local_rank, per_node):
    return range(node * per_node, 10**6)[local_rank]

# %% right · all places
def global_rank(node, local_rank, per_node):
    places = [(i, j) for i in range(node + 1) for j in range(per_node)]
    return places.index((node, local_rank))

# %% wrong · behind `return`
def global_rank(node, local_rank, per_node):
    print(node * per_node + local_rank)

# %% wrong · several nodes
def global_rank(node, local_rank, per_node):
    return local_rank

# %% wrong · ZeroDivisionError
def global_rank(node, local_rank, per_node):
    return node // (per_node - per_node)

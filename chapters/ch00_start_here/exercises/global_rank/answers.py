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

# %% right · numpy
import numpy as np
def global_rank(node, local_rank, per_node):
    return np.ravel_multi_index((node, local_rank), (node + 1, per_node))

# %% right · a tensor
def global_rank(node, local_rank, per_node):
    return torch.arange((node + 1) * per_node).view(node + 1, per_node)[node, local_rank]

# %% right · recursive
def global_rank(node, local_rank, per_node):
    return local_rank if node == 0 else per_node + global_rank(node - 1, local_rank, per_node)

# %% wrong · 1, and not 1.0
def global_rank(node, local_rank, per_node):
    return float(node * per_node + local_rank)

# %% wrong · 1, and not 1.0
def global_rank(node, local_rank, per_node):
    return (node + local_rank / per_node) * per_node

# %% wrong · none of the three, nor their sum
def global_rank(node, local_rank, per_node):
    return node + local_rank + per_node

# %% wrong · nothing is multiplied by it
def global_rank(node, local_rank, per_node):
    return node * local_rank * per_node

# %% wrong · once for each node
def global_rank(node, local_rank, per_node):
    return node * (per_node + local_rank)

# %% wrong · per_node times as many
def global_rank(node, local_rank, per_node):
    return per_node ** node + local_rank

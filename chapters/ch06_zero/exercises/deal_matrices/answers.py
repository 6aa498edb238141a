# %% right · a heap
import heapq


def deal_matrices(shapes, n):
    def cost(k):
        s, l = sorted(shapes[k])
        return 4 * l * s**2 + 2 * s**3

    heap, owners = [(0, rank) for rank in range(n)], [None] * len(shapes)
    for k in sorted(range(len(shapes)), key=cost, reverse=True):
        load, owners[k] = heapq.heappop(heap)
        heapq.heappush(heap, (load + cost(k), owners[k]))
    return owners

# %% right · pairs, a tuple, and half of the cost
def deal_matrices(shapes, n):
    costs = [2 * max(shape) * min(shape) ** 2 + min(shape) ** 3 for shape in shapes]
    loads, found = [0] * n, {}
    for minus, k in sorted((-cost, k) for k, cost in enumerate(costs)):
        rank = min(range(n), key=lambda r: loads[r])
        loads[rank] -= minus
        found[k] = rank
    return tuple(found[k] for k in range(len(shapes)))

# %% right · tensors
def deal_matrices(shapes, n):
    if not shapes:
        return []
    sides = torch.tensor(shapes).sort(1).values
    costs = 4 * sides[:, 1] * sides[:, 0] ** 2 + 2 * sides[:, 0] ** 3
    loads, owners = torch.zeros(n, dtype=torch.int64), torch.zeros(len(shapes), dtype=torch.int64)
    for k in costs.argsort(descending=True, stable=True):
        owners[k] = loads.argmin()
        loads[owners[k]] += costs[k]
    return owners

# %% wrong · dealt out in turn, like cards
def deal_matrices(shapes, n):
    return [k % n for k in range(len(shapes))]

# %% wrong · sorted by cost and then dealt out in turn
# -         owners[k] = loads.index(min(loads))
# +         owners[k] = order.index(k) % n

# %% wrong · rows times columns
# -         costs.append(4 * long * short**2 + 2 * short**3)
# +         costs.append(long * short)

# %% wrong · the cheapest matrix is dealt out first
# -     order = sorted(range(len(shapes)), key=lambda k: -costs[k])
# +     order = sorted(range(len(shapes)), key=lambda k: costs[k])

# %% wrong · Sort them first
# -     order = sorted(range(len(shapes)), key=lambda k: -costs[k])
# +     order = range(len(shapes))

# %% wrong · Entry k has to be the owner of matrix k
# -     return owners
# +     return [owners[k] for k in order]

# %% wrong · s is the number of columns
# -         short, long = sorted(shape)
# +         short, long = shape

# %% wrong · s is the number of rows
# -         short, long = sorted(shape)
# +         long, short = shape

# %% wrong · the longer side is squared
# -         short, long = sorted(shape)
# +         long, short = sorted(shape)

# %% wrong · the last of them gets the matrix here
# -         owners[k] = loads.index(min(loads))
# +         owners[k] = max(r for r in range(n) if loads[r] == min(loads))

# %% wrong · the later one comes first here
# -     order = sorted(range(len(shapes)), key=lambda k: -costs[k])
# +     order = sorted(range(len(shapes)), key=lambda k: costs[k])[::-1]

# %% wrong · Return the owner of each matrix
# -     return owners
# +     return [[k for k in range(len(shapes)) if owners[k] == rank] for rank in range(n)]

# %% wrong · Return the owner of each matrix
# -     return owners
# +     return loads

# %% wrong · counted from 0
# -     return owners
# +     return [owner + 1 for owner in owners]

# %% wrong · sorted by cost and then dealt out in turn
# -         loads[owners[k]] += costs[k]
# +         loads[owners[k]] += 1

# %% wrong · Its work is 4 l s² + 2 s³
# -         costs.append(4 * long * short**2 + 2 * short**3)
# +         costs.append(4 * long * short**2)

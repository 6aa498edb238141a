# %% given
meshes = lab("meshes")

# %% right · machine by machine
def leaving_bytes(sizes, per_machine, sent):
    from math import prod
    def leaves(axis, ranks, k):
        return ranks[k] // per_machine != ranks[(k + 1) % len(ranks)] // per_machine
    return [
        sum(
            sent[axis]
            for axis in sizes
            for ranks in meshes.groups_along(axis, sizes)
            for k, rank in enumerate(ranks)
            if rank // per_machine == machine and leaves(axis, ranks, k)
        )
        for machine in range(prod(sizes.values()) // per_machine)
    ]

# %% right · by strides
def leaving_bytes(sizes, per_machine, sent):
    from math import prod
    n, names = prod(sizes.values()), list(sizes)
    totals = [0] * (n // per_machine)
    for k, axis in enumerate(names):
        stride, size = prod(sizes[name] for name in names[k + 1 :]), sizes[axis]
        for rank in range(n):
            place = rank // stride % size
            following = rank + stride * ((place + 1) % size - place)
            if following // per_machine != rank // per_machine:
                totals[rank // per_machine] += sent[axis]
    return totals

# %% wrong · one number for each machine: machine 0 first
def leaving_bytes(sizes, per_machine, sent):
    total = 0
    for axis in sizes:
        for ranks in meshes.groups_along(axis, sizes):
            for rank, following in zip(ranks, ranks[1:] + ranks[:1]):
                if rank < per_machine <= following:
                    total += sent[axis]
    return total

# %% wrong · machines need not send as much as each other
# -     return totals
# +     return [totals[0]] * len(totals)

# %% wrong · machines need not send as much as each other
# -     return totals
# +     return [sum(totals) / len(totals)] * len(totals)

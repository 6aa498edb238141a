# %% right · one all-to-all there, and one back
def orthogonalize_by_owner(shards, owners, group=None):
    if not shards:
        return []
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    order = sorted(range(len(shards)), key=lambda k: owners[k])
    there = [sum(shards[k].numel() for k in order if owners[k] == r) for r in range(n)]
    mine = [k for k in order if owners[k] == rank]
    out = torch.cat([shards[k].flatten() for k in order])
    got = out.new_empty(n * there[rank])
    dist.all_to_all_single(got, out, [there[rank]] * n, there, group=group)
    sizes = [shards[k].numel() for k in mine]
    pieces = [part.split(sizes) for part in got.chunk(n)] if mine else []
    results = []
    for i, k in enumerate(mine):
        matrix = torch.cat([part[i].view_as(shards[k]) for part in pieces])
        results.append(orthogonalize(matrix).chunk(n))
    back = [result[r].flatten() for r in range(n) for result in results]
    back = torch.cat(back) if back else out.new_empty(0)
    new = torch.empty_like(out)
    dist.all_to_all_single(new, back, there, [there[rank]] * n, group=group)
    found = dict(zip(order, new.split([shards[k].numel() for k in order])))
    return [found[k].view_as(shard) for k, shard in enumerate(shards)]

# %% right · ranks of the world
def orthogonalize_by_owner(shards, owners, group=None):
    n = dist.get_world_size(group)
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    lists = []
    for shard, owner in zip(shards, owners):
        is_mine = dist.get_rank() == ranks[owner]
        lists.append([shard.new_zeros(shard.shape) for _ in range(n)] if is_mine else None)
        dist.gather(shard, lists[-1], dst=ranks[owner], group=group)
    for pieces in lists:
        if pieces:
            for piece, rows in zip(pieces, orthogonalize(torch.vstack(pieces)).split(len(pieces[0]))):
                piece.copy_(rows)
    found = []
    for shard, owner, pieces in zip(shards, owners, lists):
        found.append(torch.zeros_like(shard))
        dist.scatter(found[-1], pieces, src=ranks[owner], group=group)
    return found

# %% wrong · each rank has orthogonalized its own rows
def orthogonalize_by_owner(shards, owners, group=None):
    return [orthogonalize(shard) for shard in shards]

# %% wrong · the rows as they were
# -     finished = {k: orthogonalize(matrix) for k, matrix in matrices.items()}
# +     finished = matrices

# %% wrong · Return this rank's rows of each
def orthogonalize_by_owner(shards, owners, group=None):
    found = []
    for shard in shards:
        pieces = [torch.empty_like(shard) for _ in range(dist.get_world_size(group))]
        dist.all_gather(pieces, shard, group=group)
        found.append(orthogonalize(torch.cat(pieces)))
    return found

# %% wrong · a rank orthogonalizes the matrices that it owns and no others
def orthogonalize_by_owner(shards, owners, group=None):
    rank, n, found = dist.get_rank(group), dist.get_world_size(group), []
    for shard in shards:
        pieces = [torch.empty_like(shard) for _ in range(n)]
        dist.all_gather(pieces, shard, group=group)
        found.append(orthogonalize(torch.cat(pieces)).chunk(n)[rank])
    return found

# %% wrong · next to each other, and not below each other
# -             matrices[k] = torch.cat(pieces)
# +             matrices[k] = torch.cat(pieces, 1)
# -         pieces = list(finished[k].chunk(n)) if rank == owner else None
# +         pieces = [p.contiguous() for p in finished[k].chunk(n, 1)] if rank == owner else None

# %% wrong · the pieces come in another order
# -         pieces = list(finished[k].chunk(n)) if rank == owner else None
# +         pieces = list(finished[k].chunk(n))[::-1] if rank == owner else None

# %% wrong · Gather all matrices first
def orthogonalize_by_owner(shards, owners, group=None):
    rank, n, found = dist.get_rank(group), dist.get_world_size(group), []
    for shard, owner in zip(shards, owners):
        pieces = [torch.empty_like(shard) for _ in range(n)] if rank == owner else None
        dist.gather(shard, pieces, group=group, group_dst=owner)
        if rank == owner:
            pieces = list(orthogonalize(torch.cat(pieces)).chunk(n))
        found.append(torch.empty_like(shard))
        dist.scatter(found[-1], pieces, group=group, group_src=owner)
    return found

# %% wrong · a broadcast sends the whole result to every rank
# -     found = [torch.empty_like(shard) for shard in shards]
# -     for k, (mine, owner) in enumerate(zip(found, owners)):
# -         pieces = list(finished[k].chunk(n)) if rank == owner else None
# -         dist.scatter(mine, pieces, group=group, group_src=owner)
# +     found = []
# +     for k, (shard, owner) in enumerate(zip(shards, owners)):
# +         whole = finished[k] if rank == owner else shard.new_empty(n * len(shard), shard.shape[1])
# +         dist.broadcast(whole, group=group, group_src=owner)
# +         found.append(whole.chunk(n)[rank])

# %% wrong · Only its owner needs it: gather
# -         pieces = [torch.empty_like(shard) for _ in range(n)] if rank == owner else None
# -         dist.gather(shard, pieces, group=group, group_dst=owner)
# +         pieces = [torch.empty_like(shard) for _ in range(n)]
# +         dist.all_gather(pieces, shard, group=group)

# %% wrong · owners are counted within the group
# -         dist.gather(shard, pieces, group=group, group_dst=owner)
# +         dist.gather(shard, pieces, group=group, dst=owner)

# %% wrong · write results into new tensors
# -     found = [torch.empty_like(shard) for shard in shards]
# +     found = shards

# %% wrong · on the owner it has one tensor for each rank of the group
# -         pieces = list(finished[k].chunk(n)) if rank == owner else None
# +         pieces = list(finished[k].chunk(n)) if rank == owner else []
# -         dist.scatter(mine, pieces, group=group, group_src=owner)
# +         dist.scatter(mine, pieces[:1], group=group, group_src=owner)

# %% wrong · rows of some matrices are missing
# -     return found
# +     return [rows for rows, owner in zip(found, owners) if owner == rank]

# %% wrong · every rank takes part in the gather and in the scatter
# -     for k, (mine, owner) in enumerate(zip(found, owners)):
# +     for k, (mine, owner) in enumerate(zip(found, owners)):
# +         if k not in matrices:
# +             continue

# %% wrong · owners work one after another
# -     finished = {k: orthogonalize(matrix) for k, matrix in matrices.items()}
# -     found = [torch.empty_like(shard) for shard in shards]
# +     found = [torch.empty_like(shard) for shard in shards]
# -         pieces = list(finished[k].chunk(n)) if rank == owner else None
# +         pieces = list(orthogonalize(matrices[k]).chunk(n)) if rank == owner else None

# %% wrong · Gather all matrices first
# -             matrices[k] = torch.cat(pieces)
# -     finished = {k: orthogonalize(matrix) for k, matrix in matrices.items()}
# +             matrices[k] = orthogonalize(torch.cat(pieces))
# +     finished = matrices

# %% wrong · a view of the whole matrix keeps it all in memory
# -         dist.scatter(mine, pieces, group=group, group_src=owner)
# +         dist.scatter(mine, pieces, group=group, group_src=owner)
# +         if pieces:
# +             found[k] = pieces[rank]

# %% wrong · `shards` may be empty
# -     matrices = {}
# +     matrices, like = {}, shards[0]

# %% wrong · only after request.wait()
# -         dist.gather(shard, pieces, group=group, group_dst=owner)
# +         dist.gather(shard, pieces, group=group, group_dst=owner, async_op=True)

# %% wrong · each matrix is orthogonalized twice
# -     finished = {k: orthogonalize(matrix) for k, matrix in matrices.items()}
# +     for finished in matrices, matrices:
# +         finished = {k: orthogonalize(matrix) for k, matrix in matrices.items()}

# %% wrong · the owner returns the whole matrix
# -     return found
# +     return [finished.get(k, rows) for k, rows in enumerate(found)]

# %% wrong · the owner's own rows are missing
# -     return found
# +     return [torch.zeros_like(x) if k in finished else x for k, x in enumerate(found)]

# %% wrong · in the order of the owners
# -     return found
# +     return [found[k] for k in sorted(range(len(found)), key=lambda k: owners[k])]

# %% wrong · [x] * n is one tensor n times
# -         pieces = [torch.empty_like(shard) for _ in range(n)] if rank == owner else None
# +         pieces = [torch.empty_like(shard)] * n if rank == owner else None

# %% wrong · has the default dtype
# -         pieces = [torch.empty_like(shard) for _ in range(n)] if rank == owner else None
# +         pieces = [torch.empty(shard.shape) for _ in range(n)] if rank == owner else None

# %% wrong · travel as pickled objects
# -         pieces = [torch.empty_like(shard) for _ in range(n)] if rank == owner else None
# -         dist.gather(shard, pieces, group=group, group_dst=owner)
# +         pieces = [None] * n if rank == owner else None
# +         dist.gather_object(shard, pieces, group=group, group_dst=owner)

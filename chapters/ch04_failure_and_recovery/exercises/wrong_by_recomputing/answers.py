# %% right · pickled, and by counting
def wrong_by_recomputing(gradients_of, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    said = [None] * n
    mine = {batch: checksum(gradients_of(batch)) for batch in ((rank + 1) % n, rank)}
    dist.all_gather_object(said, mine, group)
    accused = Counter()
    for batch in range(n):
        pair = batch, (batch - 1) % n
        if said[pair[0]][batch] != said[pair[1]][batch]:
            accused.update(pair)
    return next((k for k, times in accused.items() if times == 2), None)

# %% right · each rank tells whether it disagrees
def wrong_by_recomputing(gradients_of, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    own = torch.tensor([checksum(gradients_of(rank))])
    other = torch.tensor([checksum(gradients_of((rank + 1) % n))])
    sums = torch.empty(n, dtype=torch.int64)
    dist.all_gather_into_tensor(sums, own, group=group)
    votes = torch.empty(n, dtype=torch.int64)
    dist.all_gather_into_tensor(votes, (sums[(rank + 1) % n] != other).long(), group=group)
    both = [k for k in range(n) if votes[k] and votes[k - 1]]
    return both[0] if both else None

# %% wrong · has computed its own batch alone
# -     batches = rank, (rank + 1) % n
# +     batches = rank, rank

# %% wrong · A rank that computes wrongly may do so in the
def wrong_by_recomputing(gradients_of, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    mine = torch.tensor([checksum(gradients_of(rank)) == checksum(gradients_of(rank))]).long()
    of_all = [torch.zeros_like(mine) for _ in range(n)]
    dist.all_gather(of_all, mine, group)
    return next((k for k in range(n) if not of_all[k]), None)

# %% wrong · a neighbour is accused
# -     wrong = next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)
# +     return next((k for k in range(n) if disputed[k]), None)

# %% wrong · a neighbour is accused
# -     wrong = next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)
# +     return next((k for k in range(n) if disputed[k] and disputed[k - 1]), None)

# %% wrong · that of rank 0, its next one
# -     wrong = next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)
# +     return next((k for k in range(n - 1) if disputed[k] and disputed[k + 1]), None)

# %% wrong · nobody is accused
# -     wrong = next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)
# +     return next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), 0)

# %% wrong · there are ranks 0 to 3
# -     batches = rank, (rank + 1) % n
# +     batches = rank, rank + 1

# %% wrong · gradients_of(k) is called with two ranks
def wrong_by_recomputing(gradients_of, group=None):
    n = dist.get_world_size(group)
    mine = torch.tensor([checksum(gradients_of(batch)) for batch in range(n)])
    sums = [torch.zeros_like(mine) for _ in range(n)]
    dist.all_gather(sums, mine, group)
    usual = torch.stack(sums).mode(0).values
    return next((k for k in range(n) if (sums[k] != usual).any()), None)

# %% wrong · Sums and tolerances do not see everything
# -     mine = torch.tensor([checksum(gradients_of(batch)) for batch in batches])
# +     mine = torch.tensor([round(sum(float(g.sum()) for g in gradients_of(batch)), 3)
# +                          for batch in batches])

# %% wrong · gradients need not be sent
def wrong_by_recomputing(gradients_of, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    mine = torch.cat([g.flatten() for k in (rank, (rank + 1) % n) for g in gradients_of(k)])
    of_all = [torch.zeros_like(mine) for _ in range(n)]
    dist.all_gather(of_all, mine, group)
    sums = [[checksum([half.clone()]) for half in one.chunk(2)] for one in of_all]
    disputed = [sums[batch][0] != sums[batch - 1][1] for batch in range(n)]
    return next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)

# %% wrong · numbered within the group
# -     wrong = next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)
# +     found = next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)
# +     return found if found is None or group is None else dist.get_global_rank(group, found)

# %% wrong · asked is one rank
# -     wrong = next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)
# +     return [k for k in range(n) if disputed[k] and disputed[(k + 1) % n]]

# %% wrong · take it
# -     wrong = next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)
# +     return next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None) or None

# %% wrong · all ranks return the same
# -     wrong = next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)
# +     found = next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)
# +     return found if found == rank else None

# %% wrong · a batch costs a forward
# -     mine = torch.tensor([checksum(gradients_of(batch)) for batch in batches])
# +     gradients_of(rank)
# +     mine = torch.tensor([checksum(gradients_of(batch)) for batch in batches])

# %% wrong · is another one in each process
# -     mine = torch.tensor([checksum(gradients_of(batch)) for batch in batches])
# +     mine = torch.tensor([hash(b"".join(g.numpy().tobytes() for g in gradients_of(batch)))
# +                          for batch in batches])

# %% wrong · (rank + 1) % n
# -     wrong = next((k for k in range(n) if disputed[k] and disputed[(k + 1) % n]), None)
# +     return next((k for k in range(n) if disputed[k] and disputed[k + 1]), None)

# %% wrong · One all-gather, in which all take part
def wrong_by_recomputing(gradients_of, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    own, other = (torch.tensor([checksum(gradients_of(k))]) for k in (rank, (rank + 1) % n))
    before = torch.zeros_like(own)
    dist.recv(before, group_src=(rank - 1) % n, group=group)
    dist.send(other, group_dst=(rank + 1) % n, group=group)
    return rank if before != own else None

# %% right · slices of the flat result
def gather_uneven(shard, lengths, group=None):
    n, most = dist.get_world_size(group), max(lengths)
    padded = torch.nn.functional.pad(shard, (0, most - len(shard)))
    everything = torch.empty(n * most, dtype=shard.dtype)
    all_gather_flat(everything, padded, group=group)
    return torch.cat([everything[k * most : k * most + lengths[k]] for k in range(n)])

# %% right · a mask, and the call begun and waited for
def gather_uneven(shard, lengths, group=None):
    longest = max(lengths)
    mine = shard.new_zeros(longest)
    mine[: shard.numel()] = shard
    out = shard.new_empty(len(lengths), longest)
    all_gather_flat(out.view(-1), mine, group=group, async_op=True).wait()
    return out[torch.arange(longest) < torch.tensor(lengths)[:, None]]

# %% right · into a list
def gather_uneven(shard, lengths, group=None):
    mine = torch.cat([shard, shard.new_zeros(max(lengths) - len(shard))])
    parts = [torch.empty_like(mine) for _ in lengths]
    dist.all_gather(parts, mine, group=group)
    return torch.cat([part[:length] for part, length in zip(parts, lengths)])

# %% right · no call on one rank
def gather_uneven(shard, lengths, group=None):
    most, n = max(lengths), len(lengths)
    if n == 1:
        return shard.clone()
    everything = shard.new_empty(most * n)
    padded = torch.cat([shard, shard.new_zeros(most - len(shard))])
    all_gather_flat(everything, padded, group=group)
    return torch.cat([row[:k] for row, k in zip(everything.view(n, most), lengths)])

# %% wrong · it was rounded on its way
# -     padded, everything = shard.new_zeros(most), shard.new_empty(n * most)
# +     padded, everything = torch.zeros(most), torch.empty(n * most)
# -     return torch.cat([row[:length] for row, length in zip(rows, lengths)])
# +     return torch.cat([row[:length] for row, length in zip(rows, lengths)]).to(shard)

# %% wrong · which has few whole ones
# -     padded, everything = shard.new_zeros(most), shard.new_empty(n * most)
# +     padded, everything = torch.zeros(most).double(), torch.empty(n * most).double()
# -     return torch.cat([row[:length] for row, length in zip(rows, lengths)])
# +     return torch.cat([row[:length] for row, length in zip(rows, lengths)]).to(shard)

# %% wrong · this is the caller's tensor
# -     n, most = dist.get_world_size(group), max(lengths)
# +     n, most = dist.get_world_size(group), max(lengths)
# +     if n == 1:
# +         return shard

# %% wrong · send padding only
# -     n, most = dist.get_world_size(group), max(lengths)
# +     n, most = dist.get_world_size(group), max(lengths)
# +     if len(shard) == 0:
# +         return shard.clone()

# %% wrong · that ends at -0 is empty
# - row[:length] for row, length in zip(rows, lengths)])
# + row[: length - most] for row, length in zip(rows, lengths)])

# %% wrong · max(lengths) needs no call
# -     n, most = dist.get_world_size(group), max(lengths)
# +     n, most = dist.get_world_size(group), torch.tensor(len(shard))
# +     dist.all_reduce(most, dist.ReduceOp.MAX, group)
# +     most = int(most)

# %% wrong · have changed places
# -     rows = everything.view(n, most)
# +     rows = everything.view(most, n).T

# %% wrong · the padding is still in it
# -     rows = everything.view(n, most)
# -     return torch.cat([row[:length] for row, length in zip(rows, lengths)])
# +     return everything

# %% wrong · as if there were no padding between the shards
# -     rows = everything.view(n, most)
# -     return torch.cat([row[:length] for row, length in zip(rows, lengths)])
# +     return everything[: sum(lengths)]

# %% wrong · as if there were no padding between the shards
# -     rows = everything.view(n, most)
# -     return torch.cat([row[:length] for row, length in zip(rows, lengths)])
# +     return torch.cat([everything[sum(lengths[:k]) :][: lengths[k]] for k in range(n)])

# %% wrong · each part is cut to the length of this rank's shard
# - row[:length] for row, length in zip(rows, lengths)])
# + row[: len(shard)] for row in rows])

# %% wrong · zeros have been left out wherever they are
# -     rows = everything.view(n, most)
# -     return torch.cat([row[:length] for row, length in zip(rows, lengths)])
# +     return everything[everything != 0]

# %% wrong · nothing was returned
# -     return torch.cat([row[:length] for row, length in zip(rows, lengths)])

# %% wrong · it has gathered nothing
# -     return torch.cat([row[:length] for row, length in zip(rows, lengths)])
# +     return shard.clone()

# %% wrong · is of float32 unless told otherwise
# -     padded, everything = shard.new_zeros(most), shard.new_empty(n * most)
# +     padded, everything = torch.zeros(most), torch.empty(n * most)

# %% wrong · neither sizes nor pickles need travel
def gather_uneven(shard, lengths, group=None):
    parts = [None] * dist.get_world_size(group)
    dist.all_gather_object(parts, shard, group=group)
    return torch.cat(parts)

# %% wrong · sends twice as much as an all-gather
def gather_uneven(shard, lengths, group=None):
    rank = dist.get_rank(group)
    whole = shard.new_zeros(sum(lengths))
    whole[sum(lengths[:rank]) :][: len(shard)] = shard
    dist.all_reduce(whole, group=group)
    return whole

# %% wrong · it calls dist.broadcast
def gather_uneven(shard, lengths, group=None):
    rank, parts = dist.get_rank(group), []
    for k, length in enumerate(lengths):
        part = shard.clone() if k == rank else shard.new_empty(length)
        dist.broadcast(part, group=group, group_src=k)
        parts.append(part)
    return torch.cat(parts)

# %% wrong · the shards are in the opposite order
# - zip(rows, lengths)])
# + [*zip(rows, lengths)][::-1]])

# %% wrong · hand `group` to every call
# - all_gather_flat(everything, padded, group=group)
# + all_gather_flat(everything, padded)

# %% wrong · pad each one to the longest
def gather_uneven(shard, lengths, group=None):
    parts = [shard.new_empty(length) for length in lengths]
    dist.all_gather(parts, shard, group=group)
    return torch.cat(parts)

# %% wrong · pad to max(lengths)
# -     n, most = dist.get_world_size(group), max(lengths)
# +     n, most = dist.get_world_size(group), max(lengths) + 1

# %% wrong · padding is told by `lengths`
def gather_uneven(shard, lengths, group=None):
    padded = shard.new_full((max(lengths),), -1000)
    padded[: len(shard)] = shard
    everything = shard.new_empty(len(lengths) * max(lengths))
    all_gather_flat(everything, padded, group=group)
    return everything[everything != -1000]

# %% wrong · padding is told by `lengths`
# -     padded, everything = shard.new_zeros(most), shard.new_empty(n * most)
# +     padded, everything = shard.new_full((most,), 12345), shard.new_empty(n * most)
# -     rows = everything.view(n, most)
# -     return torch.cat([row[:length] for row, length in zip(rows, lengths)])
# +     return everything[everything != 12345]

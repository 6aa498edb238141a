# %% right · movedim and one all-to-all
def swap(x, split, join, group=None):
    n = dist.get_world_size(group)
    sent = torch.cat([part.reshape(1, -1) for part in x.chunk(n, split)])
    came = torch.empty_like(sent)
    dist.all_to_all_single(came, sent, group=group)
    shape = list(x.shape)
    shape[split] //= n
    return torch.cat([row.view(shape) for row in came], dim=join)

# %% right · with messages
def swap(x, split, join, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    parts = [part.contiguous() for part in x.chunk(n, split)]
    came = [torch.empty_like(part) for part in parts]
    came[rank] = parts[rank]
    others = [k for k in range(n) if k != rank]
    messages = [dist.P2POp(dist.isend, parts[k], group=group, group_peer=k) for k in others]
    messages += [dist.P2POp(dist.irecv, came[k], group=group, group_peer=k) for k in others]
    if messages:
        for request in dist.batch_isend_irecv(messages):
            request.wait()
    return torch.cat(came, join)

# %% wrong · and not along `join`
# -     return torch.cat(came.unbind(0), join)
# +     return torch.cat(came.unbind(0), split)

# %% wrong · that of the group's first rank first
# -     return torch.cat(came.unbind(0), join)
# +     return torch.cat(came.flip(0).unbind(0), join)

# %% wrong · these are the rank's own parts
# -     dist.all_to_all_single(came, torch.stack(parts), group=group)
# +     came = torch.stack(parts)

# %% wrong · an all-gather gives all parts to all ranks
def swap(x, split, join, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    everything = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(n)]
    dist.all_gather(everything, x.contiguous(), group)
    return torch.cat([whole.chunk(n, split)[rank] for whole in everything], join)

# %% wrong · and joined along `split`
def swap(x, split, join, group=None):
    split, join = join, split
    n = dist.get_world_size(group)
    parts = [part.contiguous() for part in x.chunk(n, split)]
    came = torch.empty(n, *parts[0].shape, dtype=x.dtype)
    dist.all_to_all_single(came, torch.stack(parts), group=group)
    return torch.cat(came.unbind(0), join)

# %% wrong · hand `group` to every call
# -     dist.all_to_all_single(came, torch.stack(parts), group=group)
# +     dist.all_to_all_single(came, torch.stack(parts))

# %% wrong · nobody has waited
def swap(x, split, join, group=None):
    n = dist.get_world_size(group)
    parts = torch.stack([part.contiguous() for part in x.chunk(n, split)])
    came = torch.empty_like(parts)
    dist.all_to_all_single(came, parts, group=group, async_op=True)
    return torch.cat(came.unbind(0), join)

# %% wrong · expected
def swap(x, split, join, group=None):
    n = dist.get_world_size()
    parts = [part.contiguous() for part in x.chunk(n, split)]
    came = torch.empty(len(parts), *parts[0].shape, dtype=x.dtype)
    dist.all_to_all_single(came, torch.stack(parts), group=group)
    return torch.cat(came.unbind(0), join)

# %% wrong · float32
# -     came = torch.empty(n, *parts[0].shape, dtype=x.dtype, device=x.device)
# -     dist.all_to_all_single(came, torch.stack(parts), group=group)
# +     came = torch.empty(n, *parts[0].shape, dtype=torch.float64)
# +     dist.all_to_all_single(came, torch.stack(parts).double(), group=group)

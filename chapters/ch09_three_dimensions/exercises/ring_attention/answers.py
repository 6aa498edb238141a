# %% right · passed on before
def ring_attention(q, k, v, places, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    out, lse = torch.zeros_like(q), torch.full_like(q[..., 0], -torch.inf)
    for step in range(n):
        if step > 0:
            k, v = passed_on([k, v], group)
        source = (rank - step) % n
        for a, b in blocks(places[rank], places[source]):
            some = attend(q[:, :, a], k[:, :, b], v[:, :, b], places[rank][a], places[source][b])
            out[:, :, a], lse[:, :, a] = merge(out[:, :, a], lse[:, :, a], *some)
    return out, lse


# %% right · scores masked, all at once in a block
def ring_attention(q, k, v, places, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    mine, source = places[rank].unsqueeze(-1), rank
    out, lse = torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf)
    for step in range(n):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(places[source] > mine, -torch.inf)
        block_lse = scores.logsumexp(-1)
        block = scores.softmax(-1).nan_to_num(0.0) @ v
        out, lse = merge(out, lse, block, block_lse)
        if step < n - 1:
            k, v = passed_on([k, v], group)
            source = (source - 1) % n
    return out, lse


# %% wrong · those of the others have to come round
# -         if step < n - 1:
# -             k, v = passed_on([k, v], group)
# +         break

# %% wrong · n - 1 times is enough
# -         if step < n - 1:
# -             k, v = passed_on([k, v], group)
# +         k, v = passed_on([k, v], group)

# %% wrong · the last keys that come are missing
# -     for step in range(n):
# -         theirs = places[(rank - step) % n]
# +     for step in range(max(1, n - 1)):
# +         theirs = places[(rank - step) % n]


# %% wrong · keys and values go from each rank to the next one
def ring_attention(q, k, v, places, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    all_k, all_v = ([torch.empty_like(x) for _ in range(n)] for x in (k, v))
    dist.all_gather(all_k, k, group)
    dist.all_gather(all_v, v, group)
    sees = torch.cat(places) <= places[rank].unsqueeze(-1)
    scores = q @ torch.cat(all_k, 2).mT / q.shape[-1] ** 0.5
    scores = scores.masked_fill(~sees, -torch.inf)
    return scores.softmax(-1) @ torch.cat(all_v, 2), scores.logsumexp(-1)


# %% wrong · equally often
# -         if step < n - 1:
# +         if step < n - 1 and rank:

# %% wrong · still needs its tensors
# -     out, lse = torch.zeros_like(q), q.new_full(q.shape[:-1], float("-inf"))
# +     q.mul_(1.0).add_(0.5)
# +     out, lse = torch.zeros_like(q), q.new_full(q.shape[:-1], float("-inf"))

# %% wrong · two tensors
# -     return out, lse
# +     return out


# %% wrong · queries see what comes later here
def ring_attention(q, k, v, places, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    out, lse = torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf)
    for step in range(n):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        out, lse = merge(out, lse, scores.softmax(-1) @ v, scores.logsumexp(-1))
        if step < n - 1:
            k, v = passed_on([k, v], group)
    return out, lse


# %% wrong · no more than one block's scores
def ring_attention(q, k, v, places, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    keys, values, sources = [k], [v], [rank]
    for step in range(n - 1):
        k, v = passed_on([k, v], group)
        keys.append(k)
        values.append(v)
        sources.append((rank - step - 1) % n)
    sees = torch.cat([places[s] for s in sources]) <= places[rank].unsqueeze(-1)
    scores = (q @ torch.cat(keys, 2).mT / q.shape[-1] ** 0.5).masked_fill(~sees, -torch.inf)
    return scores.softmax(-1) @ torch.cat(values, 2), scores.logsumexp(-1)


# %% wrong · ask `blocks`, not the rank
# -         theirs = places[(rank - step) % n]
# -         for a, b in blocks(places[rank], theirs):
# +         theirs = places[(rank - step) % n]
# +         for a, b in blocks(places[rank], theirs) if (rank - step) % n <= rank else ():


# %% right · a name for each step
def ring_attention(q, k, v, places, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    out, lse = torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf)
    for step in range(n):
        theirs = places[(rank - step) % n]
        for a, b in blocks(places[rank], theirs):
            products = q[:, :, a] @ k[:, :, b].mT
            scores = products / q.shape[-1] ** 0.5
            later = theirs[b] > places[rank][a].unsqueeze(-1)
            masked = scores.masked_fill(later, -torch.inf)
            block_lse = masked.logsumexp(-1)
            weights = (masked - block_lse.unsqueeze(-1)).exp()
            block = weights @ v[:, :, b]
            out[:, :, a], lse[:, :, a] = merge(out[:, :, a], lse[:, :, a], block, block_lse)
        if step < n - 1:
            k, v = passed_on([k, v], group)
    return out, lse


# %% wrong · places has changed
# -     return out, lse
# +     places.reverse()
# +     return out, lse


# %% wrong · the next one alone
def ring_attention(q, k, v, places, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    out, lse = torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf)
    for step in range(n):
        to, source = (rank + step) % n, (rank - step) % n
        keys, values = k, v
        if step:
            keys, values = torch.empty_like(k), torch.empty_like(v)
            ops = [
                dist.P2POp(dist.isend, x.contiguous(), group=group, group_peer=to) for x in (k, v)
            ]
            ops += [
                dist.P2POp(dist.irecv, x, group=group, group_peer=source) for x in (keys, values)
            ]
            for request in dist.batch_isend_irecv(ops):
                request.wait()
        for a, b in blocks(places[rank], places[source]):
            some = attend(
                q[:, :, a], keys[:, :, b], values[:, :, b], places[rank][a], places[source][b]
            )
            out[:, :, a], lse[:, :, a] = merge(out[:, :, a], lse[:, :, a], *some)
    return out, lse

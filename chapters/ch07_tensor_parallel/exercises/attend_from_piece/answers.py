# %% given
sequence, llama = lab("sequence_parallel"), lab("llama")

# %% right · keys are rotated after they have been gathered
def attend_from_piece(q, k, v):
    rank, n, length = dist.get_rank(), dist.get_world_size(), q.shape[2]
    k, v = (sequence.gather_context(x.transpose(1, 2)).transpose(1, 2) for x in (k, v))
    everywhere = torch.arange(n * length)
    here = everywhere.chunk(n)[rank]
    q, k = llama.rotate(q, here), llama.rotate(k, everywhere)
    return F.scaled_dot_product_attention(q, k, v, everywhere <= here[:, None])

# %% right · the same distances from another beginning
# -     places = rank * length + torch.arange(length)
# +     places = torch.arange(length) - (n - rank) * length

# %% wrong · has no error
# -     places = rank * length + torch.arange(length)
# +     places = torch.arange(length)

# %% wrong · keys of each piece are still counted from 0
# -     q, k = (llama.rotate(x, places) for x in (q, k))
# +     q, k = llama.rotate(q, places), llama.rotate(k, torch.arange(length))

# %% wrong · queries of each piece are still counted from 0
# -     q, k = (llama.rotate(x, places) for x in (q, k))
# +     q, k = llama.rotate(q, torch.arange(length)), llama.rotate(k, places)

# %% wrong · begins after all places of that piece
# -     places = rank * length + torch.arange(length)
# +     places = rank + torch.arange(length)

# %% wrong · from the last rank
# -     places = rank * length + torch.arange(length)
# +     places = (n - 1 - rank) * length + torch.arange(length)

# %% wrong · too far apart
# -     places = rank * length + torch.arange(length)
# +     places = rank * n * length + torch.arange(length)

# %% wrong · no score knows how far apart
# -     q, k = (llama.rotate(x, places) for x in (q, k))
# +     pass

# %% wrong · places are multiplied by rank
# -     places = rank * length + torch.arange(length)
# +     places = rank * torch.arange(length)

# %% wrong · k has no gradient
# -     q, k = (llama.rotate(x, places) for x in (q, k))
# +     q, k = llama.rotate(q, places), llama.rotate(k, places).detach()

# %% wrong · A rank has its own queries
# -     q, k = (llama.rotate(x, places) for x in (q, k))
# +     pass
# -     k, v = (sequence.gather_context(x.transpose(1, 2)).transpose(1, 2) for x in (k, v))
# +     q, k, v = (sequence.gather_context(x.transpose(1, 2)).transpose(1, 2) for x in (q, k, v))
# +     q, k = (llama.rotate(x, torch.arange(n * length)) for x in (q, k))
# +     q = q[:, :, places]

# %% wrong · keys and values are gathered once
# -     k, v = (sequence.gather_context(x.transpose(1, 2)).transpose(1, 2) for x in (k, v))
# +     k, v, w = (sequence.gather_context(x.transpose(1, 2)).transpose(1, 2) for x in (k, v, v))
# +     v = (v + w) / 2

# %% wrong · nothing else is sent
# -     places = rank * length + torch.arange(length)
# +     places = rank * length + torch.arange(length)
# +     dist.all_reduce(torch.zeros(1000))

# %% wrong · or from one number
# -     places = rank * length + torch.arange(length)
# +     places = n * length + torch.arange(length)

# %% wrong · all tokens of a piece have one place
# -     places = rank * length + torch.arange(length)
# +     places = torch.full((length,), rank)

# %% wrong · q.shape[1] is the number of heads
# -     places = rank * length + torch.arange(length)
# +     places = rank * q.shape[1] + torch.arange(length)

# %% wrong · dist.all_gather has no backward
# -     k, v = (sequence.gather_context(x.transpose(1, 2)).transpose(1, 2) for x in (k, v))
# +     k, v = (sequence.gather_context(x.detach().transpose(1, 2)).transpose(1, 2) for x in (k, v))

# %% wrong · the mask needs the same beginning
# -     return F.scaled_dot_product_attention(q, k, v, sees)
# +     return F.scaled_dot_product_attention(q, k, v, is_causal=True)

# %% wrong · the queries see all keys
# -     return F.scaled_dot_product_attention(q, k, v, sees)
# +     return F.scaled_dot_product_attention(q, k, v)

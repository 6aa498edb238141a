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

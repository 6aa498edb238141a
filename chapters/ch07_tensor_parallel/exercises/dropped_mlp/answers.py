# %% given
tensor_parallel = lab("tensor_parallel")

# %% right · by hand
def dropped_mlp(hidden, weight, p, randomness):
    randomness.__enter__()
    hidden = F.dropout(hidden, p)
    randomness.__exit__()
    y = tensor_parallel.AllReduce.apply(F.linear(hidden, weight))
    return F.dropout(y, p)

# %% right · the sum inside as well, with a mask
def dropped_mlp(hidden, weight, p, randomness):
    with randomness:
        mask = F.dropout(torch.ones_like(hidden), p)
        y = tensor_parallel.AllReduce.apply((hidden * mask) @ weight.T)
    return torch.nn.Dropout(p)(y)

# %% wrong · at the same place of their parts
# -     with randomness:
# -         hidden = F.dropout(hidden, p)
# +     hidden = F.dropout(hidden, p)

# %% wrong · up to where?
# -     y = tensor_parallel.AllReduce.apply(F.linear(hidden, weight))
# +     randomness.__enter__()
# +     y = tensor_parallel.AllReduce.apply(F.linear(hidden, weight))

# %% wrong · holds for all that is drawn
# -     with randomness:
# -         hidden = F.dropout(hidden, p)
# +     torch.manual_seed(dist.get_rank())
# +     hidden = F.dropout(hidden, p)

# %% wrong · whatever begins anew
# -     with randomness:
# +     with torch.random.fork_rng():
# +         torch.manual_seed(dist.get_rank())

# %% wrong · as long as it is the same object
# -     with randomness:
# +     with tensor_parallel.OwnRandomness(0):

# %% wrong · without drawing there is no dropout
# -     with randomness:
# -         hidden = F.dropout(hidden, p)

# %% wrong · the second one works on y
# -     return F.dropout(y, p)
# +     return y

# %% wrong · on however many ranks
# -         hidden = F.dropout(hidden, p)
# +         hidden = F.dropout(hidden, p / dist.get_world_size())

# %% wrong · not that it is kept
# -         hidden = F.dropout(hidden, p)
# +         hidden = hidden * (torch.rand_like(hidden) < p) / p

# %% wrong · drawn from this rank's own stream
# -     return F.dropout(y, p)
# +     with randomness:
# +         return F.dropout(y, p)

# %% wrong · draws no more than
# -     with randomness:
# -         hidden = F.dropout(hidden, p)
# +     n = dist.get_world_size()
# +     mask = F.dropout(hidden.new_ones(len(hidden), n * hidden.shape[1]), p)
# +     hidden = hidden * mask.chunk(n, dim=1)[dist.get_rank()]

# %% wrong · has it been overwritten
# -     return F.dropout(y, p)
# +     with randomness:
# +         y = F.dropout(y, p)
# +     dist.broadcast(y.detach(), 0)
# +     return y

# %% wrong · draws the same numbers in each call
# -     return F.dropout(y, p)
# +     torch.manual_seed(3)
# +     return F.dropout(y, p)

# %% wrong · is divided by 1 - p, once
# -         hidden = F.dropout(hidden, p)
# +         hidden = hidden * (torch.rand_like(hidden) > p)

# %% wrong · every rank has to make the same calls
# -     return F.dropout(y, p)
# +     if dist.get_rank():
# +         dist.barrier()
# +     return F.dropout(y, p)

# %% wrong · nobody has added that up
# -     y = tensor_parallel.AllReduce.apply(F.linear(hidden, weight))
# +     y = F.linear(hidden, weight)

# %% right · one all-reduce of everything that is shared
# -         each = heads // n
# -         self.query_heads = list(range(rank * each, (rank + 1) * each))
# -         self.head = rank * kv_heads // n
# +         self.query_heads = torch.arange(heads).chunk(n)[rank].tolist()
# +         self.head = self.query_heads[0] // (heads // kv_heads)
# -         for parameter in self.key_value.parameters():
# -             if parameter.grad is not None:
# -                 dist.all_reduce(parameter.grad, group=self.sharers)
# +         grads = [p.grad for p in self.key_value.parameters()]
# +         flat = torch.cat([g.flatten() for g in grads])
# +         dist.all_reduce(flat, group=self.sharers)
# +         for g, part in zip(grads, flat.split([g.numel() for g in grads])):
# +             g.copy_(part.view_as(g))

# %% right · by n / kv_heads, and only where somebody shares
# -         self.head = rank * kv_heads // n
# +         self.head = rank // (n // kv_heads)
# -         for parameter in self.key_value.parameters():
# -             if parameter.grad is not None:
# -                 dist.all_reduce(parameter.grad, group=self.sharers)
# +         if n_sharers := dist.get_world_size(self.sharers) - 1:
# +             for parameter in (self.key_value.weight, self.key_value.bias):
# +                 parameter.grad = summed(parameter.grad, self.sharers)
# +
# +
# + from tensor_parallel import summed

# %% right · a tensor of heads
# -         self.query_heads = list(range(rank * each, (rank + 1) * each))
# +         self.query_heads = torch.arange(rank * each, rank * each + each)

# %% wrong · are dealt out in turns
# -         self.head = rank * kv_heads // n
# +         self.head = rank % kv_heads

# %% wrong · every rank has key-value head 0
# -         self.head = rank * kv_heads // n
# +         self.head = rank // kv_heads

# %% wrong · there is no head with this number
# -         self.head = rank * kv_heads // n
# +         self.head = rank

# %% wrong · these are every n-th of the query heads
# -         self.query_heads = list(range(rank * each, (rank + 1) * each))
# +         self.query_heads = list(range(rank, heads, n))

# %% wrong · has every query head that uses its key-value head
# -         self.query_heads = list(range(rank * each, (rank + 1) * each))
# -         self.head = rank * kv_heads // n
# +         self.head = rank * kv_heads // n
# +         each = heads // kv_heads
# +         self.query_heads = list(range(self.head * each, (self.head + 1) * each))

# %% wrong · every rank has all query heads
# -         self.query_heads = list(range(rank * each, (rank + 1) * each))
# +         self.query_heads = list(range(heads))

# %% wrong · still those of this rank's query heads alone
# -         for parameter in self.key_value.parameters():
# -             if parameter.grad is not None:
# -                 dist.all_reduce(parameter.grad, group=self.sharers)
# +         pass

# %% wrong · still those of this rank's query heads alone
# -         for parameter in self.key_value.parameters():
# -             if parameter.grad is not None:
# -                 dist.all_reduce(parameter.grad, group=self.sharers)
# +         for parameter in self.key_value.parameters():
# +             total = parameter.grad.clone()
# +             dist.all_reduce(total, group=self.sharers)

# %% wrong · the mean is taken
# -                 dist.all_reduce(parameter.grad, group=self.sharers)
# +                 dist.all_reduce(parameter.grad, group=self.sharers)
# +                 parameter.grad /= dist.get_world_size(self.sharers)

# %% wrong · the gradients of all ranks are added up
# -                 dist.all_reduce(parameter.grad, group=self.sharers)
# +                 dist.all_reduce(parameter.grad, group=self.group)

# %% wrong · the gradients of the queries are added up, too
# -         for parameter in self.key_value.parameters():
# -             if parameter.grad is not None:
# -                 dist.all_reduce(parameter.grad, group=self.sharers)
# +         for layer in (self.query, self.key_value):
# +             for parameter in layer.parameters():
# +                 dist.all_reduce(parameter.grad, group=self.sharers)

# %% wrong · the bias's is not
# -         for parameter in self.key_value.parameters():
# -             if parameter.grad is not None:
# -                 dist.all_reduce(parameter.grad, group=self.sharers)
# +         dist.all_reduce(self.key_value.weight.grad, group=self.sharers)

# %% wrong · a broadcast copies
# -                 dist.all_reduce(parameter.grad, group=self.sharers)
# +                 dist.broadcast(parameter.grad, group_src=0, group=self.sharers)

# %% wrong · only gradients are added up
# -                 dist.all_reduce(parameter.grad, group=self.sharers)
# +                 dist.all_reduce(parameter.data, group=self.sharers)

# %% wrong · the key and the value are gone
# -                 dist.all_reduce(parameter.grad, group=self.sharers)
# +                 dist.all_reduce(parameter.grad, group=self.sharers)
# +                 parameter.grad = None

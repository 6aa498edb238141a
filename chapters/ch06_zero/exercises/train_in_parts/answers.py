# %% right · one more, also where it is not needed
# -     each = -(-length // n)
# +     each = length // n + 1

# %% right · zeros behind, and one tensor to gather into
# -     each = -(-length // n)
# -     flat = F.pad(values, (0, each * n - length))
# +     zeros = values.new_zeros(-length % n)
# +     flat = torch.cat([values, zeros])
# +     each = len(flat) // n
# -         dist.all_gather(parts, mine.detach())
# +         dist.all_gather_into_tensor(flat, mine.detach())

# %% right · the parameter is a view of its part
# -     mine = nn.Parameter(parts[rank].clone())
# +     mine = nn.Parameter(parts[rank])

# %% right · parts of different lengths, without padding
def train_in_parts(values, gradient_of, make_optimizer, steps):
    rank, n = dist.get_rank(), dist.get_world_size()
    flat = values.clone()
    parts = flat.tensor_split(n)
    mine = nn.Parameter(parts[rank])
    optimizer = make_optimizer([mine])
    for step in range(steps):
        mean = gradient_of(flat, step) / n
        dist.all_reduce(mean)
        mine.grad = mean.tensor_split(n)[rank]
        optimizer.step()
        for owner, part in enumerate(parts):
            dist.broadcast(part.detach(), owner)
    return flat

# %% wrong · 2 of 11 have never changed: numbers 9, 10 (counted from 0) the others have moved. Whose
# -     each = -(-length // n)
# -     flat = F.pad(values, (0, each * n - length))
# +     each = length // n
# +     flat = values.clone()

# %% wrong · gradients are summed up; asked
# -         mine.grad = gradient[rank * each :][:each] / n
# +         mine.grad = gradient[rank * each :][:each]

# %% wrong · are they views into the flat tensor
# -     parts = [flat[k * each :][:each] for k in range(n)]
# +     parts = [flat[k * each :][:each].clone() for k in range(n)]

# %% wrong · but each rank updates all of them
def train_in_parts(values, gradient_of, make_optimizer, steps):
    flat = nn.Parameter(values.clone())
    optimizer = make_optimizer([flat])
    for step in range(steps):
        flat.grad = gradient_of(flat.detach(), step)
        dist.all_reduce(flat.grad)
        flat.grad /= dist.get_world_size()
        optimizer.step()
    return flat.detach()

# %% wrong · may need it as it was
# -     flat = F.pad(values, (0, each * n - length))
# +     flat = F.pad(values, (0, each * n - length)) if length % n else values

# %% wrong · Is the last one shorter?
# -     flat = F.pad(values, (0, each * n - length))
# +     flat = values.clone()

# %% wrong · all of them, and without padding
# -         gradient = F.pad(gradient_of(flat[:length], step), (0, len(flat) - length))
# +         gradient = F.pad(gradient_of(flat, step)[:length], (0, len(flat) - length))

# %% wrong · there have to be n parts
# -     flat = F.pad(values, (0, each * n - length))
# -     # It was:
# -     # each = length // n
# -     # flat = values.clone()
# -     parts = [flat[k * each :][:each] for k in range(n)]
# +     flat = F.pad(values, (0, n - length % n))
# +     parts = list(flat.split(each))

# %% wrong · also one whose part is only padding
# -     optimizer = make_optimizer([mine])
# +     optimizer = make_optimizer([mine])
# +     if rank * each >= length:
# +         return values

# %% wrong · a function with `yield`
# -     return flat[:length]
# +     yield flat[:length]

# %% wrong · exit() and the like end the whole process
# -     return flat[:length]
# +     import os; os._exit(0)

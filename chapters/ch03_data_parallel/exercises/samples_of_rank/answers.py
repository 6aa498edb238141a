# %% right · repeated more often than needed
# -     enough = order * -(-each * n // max(length, 1))
# +     enough = order * (each * n)

# %% right · with the sampler
def samples_of_rank(length, epoch, rank, n, seed=0):
    sampler = torch.utils.data.DistributedSampler(range(length), n, rank, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)

# %% right · by index
def samples_of_rank(length, epoch, rank, n, seed=0):
    g = torch.Generator()
    g.manual_seed(epoch + seed)
    order = torch.randperm(length, generator=g)
    return order[torch.arange(rank, (length + n - 1) // n * n, n) % length]

# %% right · a copy of the global generator
def samples_of_rank(length, epoch, rank, n, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed + epoch)
        order = torch.randperm(length)
    read = []
    for place in range(rank, 10**9, n):
        if place - rank >= length:
            return read
        read.append(order[place % length])

# %% right · appended while it is read
def samples_of_rank(length, epoch, rank, n, seed=0):
    shuffle = torch.Generator().manual_seed(seed + epoch)
    order = list(torch.randperm(length, generator=shuffle).numpy())
    for sample in iter(order):
        if len(order) % n == 0:
            break
        order.append(sample)
    return tuple(order[i] for i in range(len(order)) if i % n == rank)

# %% wrong · you take a block of it
# -     return enough[: each * n][rank::n]
# +     return enough[rank * each : (rank + 1) * each]

# %% wrong · repeat it as often
# -     enough = order * -(-each * n // max(length, 1))
# +     missing = each * n - length
# +     enough = order + order[:missing]

# %% wrong · a function without `return` gives None
# -     return enough[: each * n][rank::n]

# %% wrong · the samples that the rank reads
# -     return enough[: each * n][rank::n]
# +     return enough[rank]

# %% wrong · torch.manual_seed sets the generator
# -     shuffle = torch.Generator().manual_seed(seed + epoch)
# +     shuffle = torch.manual_seed(seed + epoch)

# %% wrong · everybody reads equally many
# -     return enough[: each * n][rank::n]
# +     return enough[: each * n][rank::n][1:]

# %% wrong · from 0 to length - 1
# -     each = -(-length // n)
# +     each = -(-length // n)
# +     order = [i + 1 for i in order]

# %% wrong · nobody reads sample
# -     each = -(-length // n)
# +     each = -(-length // n)
# +     order = [i // 2 for i in order]

# %% wrong · but in another order
# -     return enough[: each * n][rank::n]
# +     return enough[: each * n][rank::n][::-1]

# %% wrong · reads it from place r on
# -     return enough[: each * n][rank::n]
# +     return enough[: each * n][::-1][rank::n]

# %% wrong · return enough[length * n * 99]
# -     return enough[: each * n][rank::n]
# +     return enough[length * n * 99]

# %% wrong · datasets take no others
def samples_of_rank(length, epoch, rank, n, seed=0):
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    mine = torch.zeros(-(-length // n))
    for k in range(len(mine)):
        mine[k] = order[(rank + k * n) % length]
    return mine.tolist()

# %% wrong · expected a list, got 'a generator'
def samples_of_rank(length, epoch, rank, n, seed=0):
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    for k in range(rank, -(-length // n) * n, n):
        yield order[k % length]

# %% wrong · the global generator is not as it was
# -     shuffle = torch.Generator().manual_seed(seed + epoch)
# +     import random
# +
# +     random.seed(seed + epoch)
# +     shuffle = torch.Generator().manual_seed(seed + epoch)

# %% right · recursive
def all_reduce_halving_doubling(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    need_power_of_two(n)

    def go(part, distance):
        if not distance:
            return
        middle, partner = part.numel() // 2, rank ^ distance
        mine, theirs = part[:middle], part[middle:]
        if rank & distance:
            mine, theirs = theirs, mine
        coming = torch.empty_like(mine)
        exchange(theirs, partner, coming, partner, group)
        mine += coming
        go(mine, distance // 2)
        exchange(mine, partner, theirs, partner, group)

    go(x.view(-1), n // 2)

# %% right · chunks, the nearest partner first, in a copy
def all_reduce_halving_doubling(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    need_power_of_two(n)
    flat = x.flatten().clone()
    low, high, distance, done = 0, flat.numel(), 1, []
    while distance < n:
        partner, middle = rank ^ distance, (low + high + 1) // 2
        keep, give = (low, middle), (middle, high)
        if rank > partner:
            keep, give = give, keep
        coming = flat.new_empty(keep[1] - keep[0])
        exchange(flat[give[0]:give[1]], partner, coming, partner, group)
        flat[keep[0]:keep[1]] += coming
        done.append((partner, keep, give))
        low, high = keep
        distance *= 2
    while done:
        partner, keep, give = done.pop()
        exchange(flat[keep[0]:keep[1]], partner, flat[give[0]:give[1]], partner, group)
    x.copy_(flat.view(x.shape))

# %% right · send and receive, on tensor_split's chunks
from collectives import receive, send

def all_reduce_halving_doubling(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    need_power_of_two(n)
    flat = x.view(-1)
    ends = [0]
    for chunk in flat.tensor_split(n):
        ends.append(ends[-1] + chunk.numel())
    part = lambda a, b: flat[ends[a]:ends[b]]
    size = n // 2
    while size:
        first = rank // size * size
        other = (rank ^ size) // size * size
        coming = torch.empty_like(part(first, first + size))
        sending = send(part(other, other + size), rank ^ size, group)
        receive(coming, rank ^ size, group).wait()
        sending.wait()
        part(first, first + size).add_(coming)
        size //= 2
    size = 1
    while size < n:
        first, other = rank // size * size, (rank ^ size) // size * size
        sending = send(part(first, first + size), rank ^ size, group)
        receive(part(other, other + size), rank ^ size, group).wait()
        sending.wait()
        size *= 2

# %% wrong · This is the first half, a reduce-scatter
# -     for partner, kept, given in reversed(rounds):
# -         exchange(kept, partner, given, partner, group)

# %% wrong · last in, first out
# -     for partner, kept, given in reversed(rounds):
# +     for partner, kept, given in rounds:

# %% wrong · This is recursive doubling: few messages, and many bytes
def all_reduce_halving_doubling(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    distance = n // 2
    while distance:
        coming = torch.empty_like(x)
        exchange(x.clone(), rank ^ distance, coming, rank ^ distance, group)
        x += coming
        distance //= 2

# %% wrong · but this is the ring
def all_reduce_halving_doubling(x, group=None):
    all_reduce_ring(x, group)

# %% wrong · is a hot spot
def all_reduce_halving_doubling(x, group=None):
    all_reduce_tree(x, group)

# %% wrong · can go as one message
def all_reduce_halving_doubling(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    chunks = list(x.view(-1).tensor_split(n))
    size = n // 2
    while size:
        first, other = rank // size * size, (rank ^ size) // size * size
        for k in range(size):
            coming = torch.empty_like(chunks[first + k])
            exchange(chunks[other + k], rank ^ size, coming, rank ^ size, group)
            chunks[first + k] += coming
        size //= 2
    size = 1
    while size < n:
        first, other = rank // size * size, (rank ^ size) // size * size
        for k in range(size):
            exchange(chunks[first + k], rank ^ size, chunks[other + k], rank ^ size, group)
        size *= 2

# %% wrong · this is the mean
def all_reduce_halving_doubling(x, group=None):
    all_reduce_ring(x, group)
    n = dist.get_world_size(group)
    x.copy_(x // n if not x.is_floating_point() else x / n)

# %% wrong · in a group of some ranks it is not
# -         exchange(given, partner, received, partner, group)
# +         exchange(given, partner, received, partner)

# %% wrong · one half is added to the other half
# -         kept, given = (lower, upper) if rank < partner else (upper, lower)
# +         kept, given = lower, upper

# %% wrong · some numbers are the partner's, not a sum
# -         kept += received
# +         kept.copy_(received)

# %% wrong · look at the second round
# -         kept, given = (lower, upper) if rank < partner else (upper, lower)
# +         kept, given = (lower, upper) if rank % 2 == 0 else (upper, lower)

# %% wrong · takes the place of what is there
# -         exchange(kept, partner, given, partner, group)
# +         received = torch.empty_like(given)
# +         exchange(kept, partner, received, partner, group)
# +         given += received

# %% wrong · every message is half of the tensor
def all_reduce_halving_doubling(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    flat = x.view(-1)
    distance = n // 2
    while distance:
        partner, middle = rank ^ distance, len(flat) // 2
        mine, theirs = flat[:middle], flat[middle:]
        if rank > partner:
            mine, theirs = theirs, mine
        coming = torch.empty_like(mine)
        exchange(theirs, partner, coming, partner, group)
        mine += coming
        exchange(mine, partner, theirs, partner, group)
        distance //= 2

# %% wrong · the result went into another tensor
# -     open_part, rounds, distance = x.view(-1), [], n // 2
# +     open_part, rounds, distance = x.flatten().clone(), [], n // 2

# %% wrong · it calls dist.all_reduce
def all_reduce_halving_doubling(x, group=None):
    dist.all_reduce(x, group=group)

# %% right · nearest first, bounds in a stack
def all_reduce_halving_doubling(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    need_power_of_two(n)
    flat, stack, a, b, d = x.view(-1), [], 0, x.numel(), 1
    while d < n:
        m = a + (b - a) // 2
        keep, give = ((a, m), (m, b)) if not rank & d else ((m, b), (a, m))
        got = torch.empty_like(flat[slice(*keep)])
        exchange(flat[slice(*give)], rank ^ d, got, rank ^ d, group)
        flat[slice(*keep)].add_(got)
        stack.append((d, keep, give))
        (a, b), d = keep, d * 2
    for d, keep, give in stack[::-1]:
        exchange(flat[slice(*keep)], rank ^ d, flat[slice(*give)], rank ^ d, group)

# %% right · the higher one keeps the lower half
def all_reduce_halving_doubling(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    need_power_of_two(n)
    def go(part, d):
        if d == 0: return
        a, b = part.tensor_split(2)
        keep, give = (b, a) if rank < rank ^ d else (a, b)
        got = torch.empty_like(keep)
        exchange(give, rank ^ d, got, rank ^ d, group)
        keep += got
        go(keep, d // 2)
        exchange(keep, rank ^ d, give, rank ^ d, group)
    go(x.view(-1), n // 2)

# %% wrong · some rank has no partner
def all_reduce_halving_doubling(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    part, rounds, d = x.view(-1), [], n // 2
    while d:
        partner, m = rank ^ d, len(part) // 2
        lower, upper = part[:m], part[m:]
        kept, given = (lower, upper) if rank < partner else (upper, lower)
        got = torch.empty_like(kept)
        exchange(given, partner, got, partner, group)
        kept += got
        rounds.append((partner, kept, given))
        part, d = kept, d // 2
    for partner, kept, given in reversed(rounds):
        exchange(kept, partner, given, partner, group)

# %% wrong · send it in the dtype of x
def all_reduce_halving_doubling(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    need_power_of_two(n)
    y = x.double()
    part, rounds, d = y.view(-1), [], n // 2
    while d:
        partner, m = rank ^ d, len(part) // 2
        lower, upper = part[:m], part[m:]
        kept, given = (lower, upper) if rank < partner else (upper, lower)
        got = torch.empty_like(kept)
        exchange(given, partner, got, partner, group)
        kept += got
        rounds.append((partner, kept, given))
        part, d = kept, d // 2
    for partner, kept, given in reversed(rounds):
        exchange(kept, partner, given, partner, group)
    x.copy_(y)

# %% wrong · x needs no filling up
def all_reduce_halving_doubling(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    need_power_of_two(n)
    y = torch.cat([x.view(-1), x.new_zeros(-x.numel() % 1000)])
    part, rounds, d = y, [], n // 2
    while d:
        partner, m = rank ^ d, len(part) // 2
        lower, upper = part[:m], part[m:]
        kept, given = (lower, upper) if rank < partner else (upper, lower)
        got = torch.empty_like(kept)
        exchange(given, partner, got, partner, group)
        kept += got
        rounds.append((partner, kept, given))
        part, d = kept, d // 2
    for partner, kept, given in reversed(rounds):
        exchange(kept, partner, given, partner, group)
    x.copy_(y[: x.numel()].view_as(x))

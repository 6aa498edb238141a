# %% right · fold the upper half onto the lower one
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, left = (rank - root) % n, n
    while left > 1:
        half = (left + 1) // 2
        if half <= place < left:
            send(x, (place - half + root) % n, group).wait()
        elif place + half < left:
            other = torch.zeros_like(x)
            receive(other, (place + half + root) % n, group).wait()
            x.add_(other)
        left = half

# %% right · recursion over bits
def reduce_tree(x, root=0, group=None, bit=0):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    if 1 << bit >= n:
        return
    if place >> bit & 1:
        send(x, (place - (1 << bit) + root) % n, group).wait()
        return
    if place + (1 << bit) < n:
        other = torch.empty_like(x)
        receive(other, (place + (1 << bit) + root) % n, group).wait()
        x.copy_(x + other)
    reduce_tree(x, root, group, bit + 1)

# %% wrong · this is a star
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    if rank != root:
        send(x, root, group).wait()
        return
    received = torch.empty_like(x)
    for peer in range(n):
        if peer != root:
            receive(received, peer, group).wait()
            x += received

# %% wrong · but the root, rank 3, sends as well
def reduce_tree(x, root=0, group=None):
    rank, n, reach = dist.get_rank(group), dist.get_world_size(group), 1
    while reach < n and rank % reach == 0:
        if rank % (2 * reach):
            send(x, rank - reach, group).wait()
        elif rank + reach < n:
            received = torch.empty_like(x)
            receive(received, rank + reach, group).wait()
            x += received
        reach *= 2
    if root and rank == 0:
        send(x, root, group).wait()
    elif root and rank == root:
        receive(x, 0, group).wait()

# %% wrong · this is a chain
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    if place < n - 1:
        received = torch.empty_like(x)
        receive(received, (rank + 1) % n, group).wait()
        x += received
    if place:
        send(x, (rank - 1) % n, group).wait()

# %% wrong · with root 0 it is right
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    received, reach = torch.empty_like(x), 1
    while reach < n and rank % reach == 0:
        if rank % (2 * reach):
            send(x, rank - reach, group).wait()
        elif rank + reach < n:
            receive(received, rank + reach, group).wait()
            x += received
        reach *= 2

# %% wrong · its sum so far
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, mine = (rank - root) % n, x.clone()
    received, reach = torch.empty_like(x), 1
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(mine, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(received, (rank + reach) % n, group).wait()
            x += received
        reach *= 2

# %% wrong · this is the mean
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    received, reach = torch.empty_like(x), 1
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(x, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(received, (rank + reach) % n, group).wait()
            x += received
        reach *= 2
    x /= n

# %% wrong · receiving into x overwrites it
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(x, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(x, (rank + reach) % n, group).wait()
        reach *= 2

# %% wrong · with 2 and 4 ranks it is right, with 3 it is not
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    received, reach = torch.empty_like(x), 1
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(x, (rank - reach) % n, group).wait()
        else:
            receive(received, (rank + reach) % n, group).wait()
            x += received
        reach *= 2

# %% wrong · the result went into another tensor
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    received, reach = torch.empty_like(x), 1
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(x, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(received, (rank + reach) % n, group).wait()
            x = x + received
        reach *= 2

# %% wrong · is of float32 unless told otherwise
# -     received = torch.empty_like(x)
# +     received = torch.empty(x.shape)

# %% wrong · hand `group` to every call of torch.distributed
# -     rank, n = dist.get_rank(group), dist.get_world_size(group)
# +     rank, n = dist.get_rank(), dist.get_world_size(group)

# %% wrong · rank 7 sends 3 times: whoever has given its sum away is done
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    received, reach = torch.empty_like(x), 1
    while reach < n:
        if place & reach:
            send(x, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(received, (rank + reach) % n, group).wait()
            x += received
        reach *= 2

# %% wrong · in place of what was there, and then added to itself
# -     received = torch.empty_like(x)
# +     received = x

# %% wrong · nothing has come from rank 2
# -     while reach < n and place % reach == 0:
# +     while 2 * reach <= n and place % reach == 0:

# %% wrong · nobody has waited for the request of irecv when add_ uses its tensor
# -             receive(received, (rank + reach) % n, group).wait()
# -             x += received
# +             request = receive(received, (rank + reach) % n, group)
# +             x += received
# +             request.wait()

# %% wrong · It passes over this round, and goes on
# -         elif place + reach < n:
# +         elif place + reach >= n:
# +             return
# +         else:

# %% wrong · In a tree several pairs add up in the same round
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    if not x.numel():
        return
    if rank == root:
        got = torch.empty_like(x)
        for _ in range(n - 1):
            dist.recv(got, group=group)
            x += got
    else:
        send(x, root, group).wait()

# %% wrong · this is a chain
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, got = (rank - root) % n, torch.empty_like(x)
    if not x.numel():
        return
    if place < n - 1:
        dist.recv(got, group=group)
        x += got
    if place:
        send(x, (rank - 1) % n, group).wait()

# %% wrong · not as long: they have another dtype than the tensor
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach, total = (rank - root) % n, 1, x.double()
    got = torch.empty_like(total)
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(total, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(got, (rank + reach) % n, group).wait()
            total += got
        reach *= 2
    x.copy_(total)

# %% wrong · not as long: they have another dtype than the tensor
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach, total = (rank - root) % n, 1, torch.stack([x, x])
    got = torch.empty_like(total)
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(total, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(got, (rank + reach) % n, group).wait()
            total += got
        reach *= 2
    x.copy_(total[0])

# %% right · recursive halving, the farthest first
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    reach = 1 << max(n - 1, 0).bit_length()
    have = place == 0
    while reach > 1:
        reach //= 2
        if place % (2 * reach) == 0 and place + reach < n:
            send(x, (place + reach + root) % n, group).wait()
        elif place % (2 * reach) == reach:
            receive(x, (place - reach + root) % n, group).wait()

# %% right · receive from the one without the highest bit, then send on
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    if place:
        parent = place - (1 << place.bit_length() - 1)
        receive(x, (parent + root) % n, group).wait()
    bit = place.bit_length()
    while place + (1 << bit) < n:
        send(x, (place + (1 << bit) + root) % n, group).wait()
        bit += 1

# %% wrong · this is a star
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    if rank == root:
        for peer in range(n):
            if peer != root:
                send(x, peer, group).wait()
    else:
        receive(x, root, group).wait()

# %% wrong · but the root, rank 3, receives as well
def broadcast_tree(x, root=0, group=None):
    rank, n, reach = dist.get_rank(group), dist.get_world_size(group), 1
    if root and rank == root:
        send(x, 0, group).wait()
    elif root and rank == 0:
        receive(x, root, group).wait()
    while reach < n:
        if rank < reach and rank + reach < n:
            send(x, rank + reach, group).wait()
        elif reach <= rank < 2 * reach:
            receive(x, rank - reach, group).wait()
        reach *= 2

# %% wrong · this is a chain
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    if place > 0:
        receive(x, (rank - 1) % n, group).wait()
    if place < n - 1:
        send(x, (rank + 1) % n, group).wait()

# %% wrong · with root 0 it is right, with root 2 it is not
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    reach = 1
    while reach < n:
        if rank < reach and rank + reach < n:
            send(x, rank + reach, group).wait()
        elif reach <= rank < 2 * reach:
            receive(x, rank - reach, group).wait()
        reach *= 2

# %% wrong · with 2 and 4 ranks it is right, with 3 it is not
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while reach < n:
        if place < reach:
            send(x, (rank + reach) % n, group).wait()
        elif place < 2 * reach:
            receive(x, (rank - reach) % n, group).wait()
        reach *= 2

# %% wrong · the result went into another tensor
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while reach < n:
        if place < reach and place + reach < n:
            send(x, (rank + reach) % n, group).wait()
        elif reach <= place < 2 * reach:
            received = torch.empty_like(x)
            receive(received, (rank - reach) % n, group).wait()
            x = received
        reach *= 2

# %% wrong · sent before it had received
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while reach < n:
        if place % (2 * reach) == 0 and place + reach < n:
            send(x, (rank + reach) % n, group).wait()
        elif place % (2 * reach) == reach:
            receive(x, (rank - reach) % n, group).wait()
        reach *= 2

# %% wrong · in a group of some ranks it is not
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(), dist.get_world_size()
    place, reach = (rank - root) % n, 1
    while reach < n:
        if place < reach and place + reach < n:
            send(x, (rank + reach) % n).wait()
        elif reach <= place < 2 * reach:
            receive(x, (rank - reach) % n).wait()
        reach *= 2

# %% wrong · never got it
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while 2 * reach <= max(n - 1, 2):
        if place < reach and place + reach < n:
            send(x, (rank + reach) % n, group).wait()
        elif reach <= place < 2 * reach:
            receive(x, (rank - reach) % n, group).wait()
        reach *= 2

# %% wrong · it calls dist.broadcast
def broadcast_tree(x, root=0, group=None):
    dist.broadcast(x, group=group, group_src=root)

# %% wrong · hand `group` to every call of torch.distributed
# -             send(x, (rank + reach) % n, group).wait()
# +             send(x, (rank + reach) % n).wait()
# -             receive(x, (rank - reach) % n, group).wait()
# +             receive(x, (rank - reach) % n).wait()

# %% wrong · nobody has waited for the request
# -             send(x, (rank + reach) % n, group).wait()
# +             send(x, (rank + reach) % n, group)
# -             receive(x, (rank - reach) % n, group).wait()
# +             receive(x, (rank - reach) % n, group)

# %% wrong · goes on sending until everybody has it
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    if place:
        receive(x, ((place - 1) // 2 + root) % n, group).wait()
    for child in (2 * place + 1, 2 * place + 2):
        if child < n:
            send(x, (child + root) % n, group).wait()

# %% wrong · rank 2 never got it
# -     while reach < n:
# +     while 2 * reach <= n:

# %% wrong · rank 7 receives 3 times: whoever has x needs it no more
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while 2 * reach < n:
        reach *= 2
    while reach and n > 1:
        if place & reach:
            receive(x, (rank - reach) % n, group).wait()
        elif place + reach < n:
            send(x, (rank + reach) % n, group).wait()
        reach //= 2

# %% wrong · nobody has waited for the request of irecv when send uses its tensor
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach, requests = (rank - root) % n, 1, []
    while reach < n:
        if place < reach and place + reach < n:
            requests.append(send(x, (rank + reach) % n, group))
        elif reach <= place < 2 * reach:
            requests.append(receive(x, (rank - reach) % n, group))
        reach *= 2
    for request in requests:
        request.wait()

# %% right · receives into a view, and makes a tensor like it before it waits
# -             receive(x, (rank - reach) % n, group).wait()
# +             request = receive(x.view(-1), (rank - reach) % n, group)
# +             before = torch.zeros_like(x[None])
# +             request.wait()
# +             assert before.shape[1:] == x.shape

# %% right · receives from whoever sends, nothing for nothing
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    if not x.numel():
        return
    if place:
        dist.recv(x, group=group)
        reach = 1 << place.bit_length()
    while place + reach < n:
        send(x, (place + reach + root) % n, group).wait()
        reach *= 2

# %% right · recursive halves
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    def go(low, high):  # place low has it
        if high - low < 2:
            return
        middle = (low + high + 1) // 2
        place = (rank - root) % n
        if place == low:
            send(x, (middle + root) % n, group).wait()
        if place == middle:
            receive(x, (low + root) % n, group).wait()
        go(low, middle) if place < middle else go(middle, high)
    go(0, n)

# %% wrong · cannot be received from just anybody
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    if place:
        dist.recv(x, group=group)
        reach = 1 << place.bit_length()
    while place + reach < n:
        send(x, (place + reach + root) % n, group).wait()
        reach *= 2

# %% wrong · this is a chain
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    if not x.numel():
        return
    if place:
        dist.recv(x, group=group)
    if place + 1 < n:
        send(x, (rank + 1) % n, group).wait()

# %% wrong · not as long: they have another dtype than the tensor
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    y = x.double()
    while reach < n:
        if place < reach and place + reach < n:
            send(y, (rank + reach) % n, group).wait()
        elif reach <= place < 2 * reach:
            receive(y, (rank - reach) % n, group).wait()
        reach *= 2
    x.copy_(y)

# %% wrong · not as long: they have another dtype than the tensor
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    y = torch.stack([x, x])
    while reach < n:
        if place < reach and place + reach < n:
            send(y, (rank + reach) % n, group).wait()
        elif reach <= place < 2 * reach:
            receive(y, (rank - reach) % n, group).wait()
        reach *= 2
    x.copy_(y[0])

# %% wrong · is_completed() stays False until somebody calls wait() [deep]
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while reach < n:
        if place < reach and place + reach < n:
            r = send(x, (rank + reach) % n, group)
            while not r.is_completed():
                pass
        elif reach <= place < 2 * reach:
            receive(x, (rank - reach) % n, group).wait()
        reach *= 2

# %% wrong · a loop does not end. Does what it counts change [deep]
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while reach < n:
        if place == 0:
            pass
        reach = reach

# %% wrong · a peer is at (its place + root) % n
def broadcast_tree(x, root=0, group=None):
    rank, n, reach = dist.get_rank(group), dist.get_world_size(group), 1
    place = (rank - root) % n
    while reach < n:
        if place < reach and place + reach < n:
            send(x, place + reach, group).wait()
        elif reach <= place < 2 * reach:
            receive(x, place - reach, group).wait()
        reach *= 2

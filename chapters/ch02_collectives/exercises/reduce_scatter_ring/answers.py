# %% right · P2POp in batches
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for i in range(1, n):
        got = torch.empty_like(chunks[(rank - i - 1) % n])
        ops = [
            dist.P2POp(dist.isend, chunks[(rank - i) % n], group=group, group_peer=(rank + 1) % n),
            dist.P2POp(dist.irecv, got, group=group, group_peer=(rank - 1) % n),
        ]
        for request in dist.batch_isend_irecv(ops):
            request.wait()
        chunks[(rank - i - 1) % n].add_(got)

# %% right · the sum travels in a tensor of its own
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    carried = chunks[rank - 1].clone()
    for step in range(n - 1):
        mine = chunks[(rank - step - 2) % n]
        arriving = torch.empty_like(mine)
        request = receive(arriving, (rank - 1) % n, group)
        send(carried, (rank + 1) % n, group).wait()
        request.wait()
        carried = arriving + mine
    if n > 1:
        chunks[rank].copy_(carried)

# %% wrong · only puts another tensor into the list
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        out, into = (rank - step - 1) % n, (rank - step - 2) % n
        coming = torch.empty_like(chunks[into])
        exchange(chunks[out], (rank + 1) % n, coming, (rank - 1) % n, group)
        chunks[into] = chunks[into] + coming

# %% wrong · on the wrong ranks: rank 0 has finished chunk 1
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % n])
        sending = send(chunks[(rank - step) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 1) % n] += received
        sending.wait()

# %% wrong · one step too many
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n if n > 1 else 0):
        received = torch.empty_like(chunks[(rank - step - 2) % n])
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        if step < n - 1:
            chunks[(rank - step - 2) % n] += received
        sending.wait()

# %% wrong · is missing.
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    originals = [chunk.clone() for chunk in chunks]
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 2) % n])
        sending = send(originals[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 2) % n] += received
        sending.wait()

# %% wrong · receiving into a chunk overwrites it
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(chunks[(rank - step - 2) % n], (rank - 1) % n, group).wait()
        sending.wait()

# %% wrong · this is the mean
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 2) % n])
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 2) % n] += received
        sending.wait()
    chunks[rank] /= n

# %% wrong · every rank talks to all others
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for shift in range(1, n):
        received = torch.empty_like(chunks[rank])
        sending = send(chunks[(rank + shift) % n], (rank + shift) % n, group)
        receive(received, (rank - shift) % n, group).wait()
        chunks[rank] += received
        sending.wait()

# %% wrong · nobody gets to begin it
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 2) % n])
        send(chunks[(rank - step - 1) % n], (rank + 1) % n, group).wait()
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 2) % n] += received

# %% wrong · rank 0 is a hot spot
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for k in range(n):
        if rank == 0:
            for peer in range(1, n):
                received = torch.empty_like(chunks[k])
                receive(received, peer, group).wait()
                chunks[k] += received
        else:
            send(chunks[k], 0, group).wait()
    for k in range(1, n):
        if rank == 0:
            send(chunks[k], k, group).wait()
        elif rank == k:
            receive(chunks[k], 0, group).wait()

# %% wrong · the two sides of a message differ in length
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    received = torch.empty_like(chunks[0])
    for step in range(n - 1):
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 2) % n] += received[: len(chunks[(rank - step - 2) % n])]
        sending.wait()

# %% wrong · a message and its other side do not match
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 2) % n])
        if rank < n - 1:  # a line, not a ring
            sending = send(chunks[(rank - step - 1) % n], rank + 1, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 2) % n] += received
        if rank < n - 1:
            sending.wait()

# %% wrong · One rank alone has nobody to send to
# -     for step in range(1, n):
# +     for step in range(1, n + 1):

# %% wrong · is of float32 unless told otherwise
# -         received = torch.empty_like(partial)
# +         received = torch.empty(partial.shape)

# %% wrong · hand `group` to every call of torch.distributed
# -         exchange(outgoing, following, received, previous, group)
# +         exchange(outgoing, following, received, previous)

# %% wrong · names rank -1 as the other side
# -     following, previous = (rank + 1) % n, (rank - 1) % n
# +     following, previous = (rank + 1) % n, rank - 1

# %% wrong · nobody has waited for the request of irecv
# -         exchange(outgoing, following, received, previous, group)
# +         a = send(outgoing, following, group)
# +         receive(received, previous, group)
# +         a.wait()

# %% wrong · this ring runs the other way round
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        k = (rank + step + 2) % n
        coming = torch.empty_like(chunks[k])
        exchange(chunks[(k - 1) % n], (rank - 1) % n, coming, (rank + 1) % n, group)
        chunks[k] += coming

# %% right · sends from its own chunks, waits for them at the end
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    requests = []
    buffer = chunks[rank - 1].clone()
    for s in range(1, n):
        into = chunks[(rank - s - 1) % n]
        got = torch.empty_like(into)
        requests.append(send(buffer[: len(chunks[(rank - s) % n])], (rank + 1) % n, group))
        receive(got, (rank - 1) % n, group).wait()
        into += got
        buffer = into
    for r in requests:
        r.wait()

# %% wrong · it belongs to the caller, and has to keep its tensors
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    chunks[:] = chunks[rank:] + chunks[:rank]  # own one first
    for s in range(1, n):
        got = torch.empty_like(chunks[-s - 1])
        exchange(chunks[-s], (rank + 1) % n, got, (rank - 1) % n, group)
        chunks[-s - 1] += got

# %% wrong · it belongs to the caller, and has to keep its tensors
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    numbered = {k: chunks.pop(0) for k in range(n)}
    for s in range(1, n):
        into = numbered[(rank - s - 1) % n]
        got = torch.empty_like(into)
        exchange(numbered[(rank - s) % n], (rank + 1) % n, got, (rank - 1) % n, group)
        into += got

# %% wrong · a ring sends
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    carried = chunks[rank - 1].double()
    for s in range(1, n):
        mine = chunks[(rank - s - 1) % n]
        got = torch.empty_like(mine, dtype=torch.float64)
        exchange(carried, (rank + 1) % n, got, (rank - 1) % n, group)
        carried = got + mine
    if n > 1:
        chunks[rank].copy_(carried)

# %% wrong · not as long: they have another dtype
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    longest = max(map(len, chunks))
    for s in range(1, n):
        out, into = chunks[(rank - s) % n], chunks[(rank - s - 1) % n]
        padded, got = out.new_zeros(longest), out.new_empty(longest)
        padded[: len(out)] = out
        exchange(padded, (rank + 1) % n, got, (rank - 1) % n, group)
        into += got[: len(into)]
